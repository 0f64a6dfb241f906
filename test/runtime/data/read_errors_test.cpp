// SPDX-License-Identifier: Apache-2.0
// Files of samples that the system fails to read: the reason is told, and never that one is
// damaged.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/hdf5/hdf5_file.hpp"
#include "test/runtime/data/archive_files.hpp"
#include "test/runtime/data/failing_samples.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("a failed read of TFRecords is told as such, plain or gzip") {
  for (const Compression compression : {Compression::kNone, Compression::kGzip})
    for (const std::int64_t records : {1, 3})
      check_each_read("a.tfrecord", kShape, kTargets, [&](const fs::path& train) {
        std::vector<std::string> payloads;
        for (std::int64_t i = 0; i < records; ++i) payloads.push_back(sample_payload(i));
        write_records(train / "a.tfrecord", payloads, compression);
      });
}

TEST_CASE("a failed read of HDF5 samples and archives is told as such") {
  check_each_read("a.h5", kShape, kTargets, [](const fs::path& train) {
    Hdf5File file = Hdf5File::create(train / "a.h5");
    const Extents extents{kShape.d, kShape.h, kShape.w, kShape.c};
    file.create_dataset("/x", Hdf5Type::kInt16, extents);
    file.write<std::int16_t>("/x", Slab::whole(extents), voxels_of(0, kShape));
    file.create_dataset("/y", Hdf5Type::kFloat, {kTargets});
    file.write<float>("/y", Slab::whole({kTargets}), targets_of(0));
    file.close();
  });
  check_each_read("train-00000.h5", kShape, kTargets, [](const fs::path& train) {
    write_archive(train.parent_path(), 0, 0, 2, 2, 4, kShape);
  });
}

}  // namespace halomesh
