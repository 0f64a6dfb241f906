// SPDX-License-Identifier: Apache-2.0
// Boxes of samples in slabs, out of every format: in order, of bounded size, with the same checks.
#include <doctest/doctest.h>

#include <functional>
#include <span>
#include <vector>

#include "test/runtime/data/archive_files.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

// Several slabs of every box, none of them at the end of a piece of a file.
const Shape kMany{3, 70, 61, 67};

/// Reads boxes in slabs and compares them with the formula; returns how many voxels.
std::int64_t compare_slabs(const Dataset& dataset, std::int64_t most) {
  const std::vector<Box> boxes = {Box::whole(kMany),
                                  {{0, 3, 5, 7}, {3, 69, 61, 60}},
                                  {{0, 0, 60, 1}, {3, 70, 61, 2}},
                                  {{0, 69, 0, 0}, {3, 70, 61, 67}},
                                  {{1, 1, 2, 3}, {2, 64, 50, 67}}};
  const auto reader = dataset.reader();
  std::int64_t compared = 0, wrong = 0;
  for (const Box& box : boxes) {
    std::vector<float> y(kTargets);
    std::int64_t next_d = box.lo[kD], next_h = box.lo[kH];
    reader->read_slabs(
        0, box,
        [&](AnyConstView values) {
          const auto slab = values.as<std::int16_t>();
          const Box& l = slab.span;
          CHECK((l.lo[kD] == next_d && l.lo[kH] == next_h));
          CHECK((l.extent(kC) == box.extent(kC) && l.extent(kW) == box.extent(kW)));
          CHECK((l.extent(kH) == box.extent(kH) || l.extent(kD) == 1));
          CHECK(l.volume() <= most);
          const bool to_plane_end = l.hi[kH] == box.hi[kH];
          next_d = to_plane_end ? l.hi[kD] : l.lo[kD];
          next_h = to_plane_end ? box.lo[kH] : l.hi[kH];
          for (std::int64_t d = l.lo[kD]; d < l.hi[kD]; ++d)
            for (std::int64_t h = l.lo[kH]; h < l.hi[kH]; ++h)
              for (std::int64_t w = l.lo[kW]; w < l.hi[kW]; ++w)
                for (std::int64_t c = l.lo[kC]; c < l.hi[kC]; ++c, ++compared)
                  wrong += slab.at(0, c, d, h, w) !=
                           voxel(0, ((d * kMany.h + h) * kMany.w + w) * kMany.c + c);
        },
        scalars(y));
    CHECK((next_d == box.hi[kD] && next_h == box.lo[kH]));
    CHECK(y == targets_of(0));
  }
  CHECK(wrong == 0);
  std::vector<float> y(kTargets);
  reader->read_slabs(
      0, {}, [](auto) { FAIL("a slab of nothing"); }, scalars(y));
  CHECK(y == targets_of(0));
  return compared;
}

TEST_CASE("reading in slabs: TFRecord, plain and gzip, with records before it") {
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const SharedDirectory directory;
    directory.fill([&](const auto& train) {
      write_records(train / "a.tfrecord", {sample_payload(0, kMany), sample_payload(1, kMany)},
                    compression);
    });
    CHECK(compare_slabs(*directory.open(kMany), kMany.volume() / 8) > kMany.volume());
  }
}

TEST_CASE("reading in slabs: an archive's chunks, and HDF5 without any") {
  {
    const SharedDirectory directory;
    directory.fill(
        [](const auto& train) { write_archive(train.parent_path(), 0, 0, 2, 2, 1, kMany); });
    CHECK(compare_slabs(*directory.open(kMany), 8 * kMany.volume() / kMany.d) > kMany.volume());
  }
  const SharedDirectory directory;
  directory.fill([](const auto& train) {
    Hdf5File file = Hdf5File::create(train / "a.hdf5");
    const Extents extents{kMany.d, kMany.h, kMany.w, kMany.c};
    const std::vector<std::int16_t> x = voxels_of(0, kMany);
    file.create_dataset("x", Hdf5Type::kInt16, extents);
    file.write("x", Slab::whole(extents), std::span(x));
    const std::vector<float> y = targets_of(0);
    file.create_dataset("y", Hdf5Type::kFloat, {kTargets});
    file.write("y", Slab::whole({kTargets}), std::span(y));
    file.close();
  });
  CHECK(compare_slabs(*directory.open(kMany), 8 * kMany.volume() / kMany.d) > kMany.volume());
}

TEST_CASE("reading in slabs: a negative voxel is an error that says where") {
  std::vector<std::int16_t> x = voxels_of(0, kMany);
  x[static_cast<std::size_t>(((65 * kMany.h + 3) * kMany.w + 9) * kMany.c + 1)] = -5;
  const auto error = [&](const std::function<void(const std::filesystem::path&)>& write) {
    const SharedDirectory directory;
    directory.fill(write);
    const auto dataset = directory.open(kMany);
    const auto reader = dataset->reader();
    const auto ignore = [](const AnyConstView&) {};
    // Records are checked as a whole, blocks of HDF5 by themselves.
    const std::string without = error_of([&] {
      reader->read_slabs(0, {{0, 0, 0, 0}, {3, 65, 61, 67}}, ignore, {});
    });
    CHECK((without.empty() || contains(without, "a.tfrecord: record 0: voxel")));
    return error_of([&] { reader->read_slabs(0, {{0, 1, 2, 3}, {3, 70, 61, 67}}, ignore, {}); });
  };
  const std::string record = error([&](const auto& train) {
    write_records(train / "a.tfrecord", {encode_example(x, targets_of(0))}, Compression::kNone);
  });
  CHECK(contains(record, "(65,3,9,1) is -5"));
  const std::string archive = error([&](const auto& train) {
    ArchiveWriter writer(train.parent_path() / archive_name("train", 0),
                         {1, 0, 1, kMany, kTargets, 1, "a formula"});
    writer.write(x, targets_of(0));
    writer.commit();
  });
  CHECK(contains(archive, "(65,3,9,1) is -5"));
}

}  // namespace
}  // namespace halomesh
