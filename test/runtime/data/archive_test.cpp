// SPDX-License-Identifier: Apache-2.0
// The files of archives: their names, blocks, bytes, damage and a full disk.
#include "runtime/data/archive.hpp"

#include <doctest/doctest.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "runtime/data/hdf5_kind.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/data/sample_checks.hpp"
#include "runtime/posix/read_counts.hpp"
#include "test/harness/full_disk.hpp"
#include "test/runtime/data/archive_files.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

TEST_CASE("archive: file names are recognised") {
  for (const std::int64_t file : {0, 17, 99999, 100000})
    for (const char* split : {"train", "validation"})
      CHECK(is_archive_name(archive_name(split, file), split));
  for (const char* name :
       {"", "train", "train-", "train-.h5", "train-0017.h5", "train-0001x.h5", "train-00017.hdf5",
        "train-00017.h5.partial", ".train-00017.h5", "validation-00017.h5", "train-00017h5",
        "train_00017.h5", "train-00017", "train-h5", "train-.h"})
    CHECK_MESSAGE(!is_archive_name(name, "train"), name);
}

TEST_CASE("archive: its files, compressed or not, equal the formula, block by block") {
  for (const int gzip : {0, 1, 6}) {
    const SharedDirectory directory;
    directory.fill([&](const fs::path& train) {
      write_archive(train.parent_path(), 0, 0, 2, 3, gzip);
      write_archive(train.parent_path(), 1, 2, 1, 3, gzip);
    });
    const auto dataset = directory.open(kLarge);
    CHECK(dataset->size() == 3);
    CHECK(compare_blocks(*dataset) > 3 * kLarge.volume());
  }
}

TEST_CASE("archive: it keeps names and where voxels are, of all samples of a file or of none") {
  const SharedDirectory directory;
  constexpr VoxelTransform kStraight{3, 0, 0, 1, 0, 0.75, 0, 2, 0, 0, 0.75, 3},
      kSheared{1, 0, 0.25, 0, 0, 1, 0, 0, 0.5, 0, 1, 0};
  const std::vector<Orientation> orientations{{kSheared, kStraight, 2, 1}, {{}, kStraight, 0, 1}};
  directory.fill([&](const fs::path& train) {
    ArchiveFile content{2, 0, 3, kLarge, kTargets, 1, "a formula"};
    content.orientations = orientations;
    content.names = {"case_00007", std::string(100000, 'n')};
    const fs::path path = train.parent_path() / archive_name("train", 0);
    ArchiveWriter writer(path, content);
    for (std::int64_t i = 0; i < 2; ++i) writer.write(voxels_of(i), targets_of(i));
    writer.commit();
    CHECK(find_archive_file(path) == content);
    write_archive(train.parent_path(), 1, 2, 1, 3, 1);
  });
  const auto data = directory.open(kLarge);
  CHECK(data->orientation_of(0) == orientations[0]);
  CHECK(data->orientation_of(1) == orientations[1]);
  CHECK(data->orientation_of(2) == std::nullopt);
  CHECK(data->name(0) == "case_00007");
  CHECK(data->name(1).size() == 100000);
  CHECK(data->name(2) == "train-00001:0");
}

TEST_CASE(
    "archive: one that another HDF5 filter compressed is read by the library, never added to") {
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) {
    write_archive(train.parent_path(), 0, 0, 2, 2, 0);
    const fs::path path = train.parent_path() / archive_name("train", 0);
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const std::array<hsize_t, 5> extents{2, 19, 17, 70, 2}, chunk{1, 8, 8, 64, 2};
    const hid_t options = H5Pcreate(H5P_DATASET_CREATE);
    REQUIRE(H5Pset_chunk(options, 5, chunk.data()) >= 0);
    REQUIRE(H5Pset_scaleoffset(options, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT) >= 0);
    const hid_t space = H5Screate_simple(5, extents.data(), nullptr);
    REQUIRE(H5Ldelete(file, "/x", H5P_DEFAULT) >= 0);
    const hid_t x = H5Dcreate2(file, "/x", H5T_STD_I16LE, space, H5P_DEFAULT, options, H5P_DEFAULT);
    std::vector<std::int16_t> voxels = voxels_of(0);
    const auto second = voxels_of(1);
    voxels.insert(voxels.end(), second.begin(), second.end());
    REQUIRE(H5Dwrite(x, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, voxels.data()) >= 0);
    const hid_t one = H5Screate(H5S_SCALAR);
    const hid_t filter = H5Acreate2(file, "filter", H5T_C_S1, one, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(H5Awrite(filter, H5T_C_S1, "6") >= 0);
    H5Aclose(filter);
    for (const hid_t s : {one, space}) H5Sclose(s);
    H5Dclose(x);
    H5Pclose(options);
    H5Fclose(file);
    const auto found = find_archive_file(path);
    REQUIRE(found);
    CHECK(found->gzip == kOtherFilter);
    constexpr std::int64_t kPlain = std::int64_t{2} * 3 * 3 * 2 * 8 * 8 * 64 * 2 * 2;  // all chunks
    CHECK(Hdf5File::open(path).stored_bytes(kArchiveKind.voxels.name) < kPlain * 9 / 10);
  });
  CHECK(compare_blocks(*directory.open(kLarge)) > 2 * kLarge.volume());
}

TEST_CASE("archive: reading a block touches only its chunks") {
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) { write_archive(train.parent_path(), 0, 0, 1, 1, 0); });
  const auto dataset = directory.open(kLarge);
  const auto reader = dataset->reader();
  const auto bytes_of = [&](const Box& box) {
    const Tensor block(box, 1, DataType::kInt16);
    const std::int64_t before = read_counts().bytes;
    reader->read(0, block.any_view(), {});
    return read_counts().bytes - before;
  };
  constexpr std::int64_t kChunk = 8 * 8 * 64 * 2 * 2 + 4;  // voxels and a checksum
  CHECK(bytes_of({{0, 0, 0, 0}, {2, 8, 8, 64}}) == kChunk);
  CHECK(bytes_of({{0, 7, 7, 63}, {2, 9, 9, 65}}) == 8 * kChunk);
  CHECK(bytes_of(Box::whole(kLarge)) == 3 * 3 * 2 * kChunk);
}

TEST_CASE("archive: files made twice are the same bytes") {
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) {
    for (const char* name : {"a", "b"}) {
      fs::create_directory(train / name);
      write_archive(train / name, 0, 0, 2, 2, 4);
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // they contain no time of day
    }
    CHECK(contents(train / "a" / "train-00000.h5") == contents(train / "b" / "train-00000.h5"));
    CHECK(fs::file_size(train / "a" / "train-00000.h5") > 1000);
  });
}

TEST_CASE("archive: no flipped byte changes what is read") {
  const Comm alone = test_world().split(test_world().rank(), 0);
  for (const int gzip : {0, 4}) {
    const TempDirectory directory;
    const Shape shape{1, 3, 9, 5};
    write_archive(directory.path(), 0, 0, 2, 2, gzip, shape);
    const fs::path path = directory / "train-00000.h5";
    const std::string whole = contents(path);
    int found = 0, harmless = 0;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      put_contents(path, damaged);
      CAPTURE(at);
      bool same = true;
      const std::string error = error_of([&] {
        const auto dataset = open_dataset(alone, directory.path(), "train", shape, kTargets);
        same = dataset->size() == 2;
        const auto reader = dataset->reader();
        // In two blocks: the chunks' checksums must detect it without that of the whole sample.
        for (std::int64_t sample = 0; same && sample < 2; ++sample)
          for (const Box& half :
               {Box{{0, 0, 0, 0}, {1, 2, 9, 5}}, Box{{0, 2, 0, 0}, {1, 3, 9, 5}}}) {
            const Tensor block(half, 1, DataType::kInt16);
            std::vector<float> y(kTargets);
            reader->read(sample, block.any_view(), scalars(y));
            const auto view = block.any_view().as<std::int16_t>();
            const auto expected = voxels_of(sample, shape);
            same = same && y == targets_of(sample) &&
                   std::equal(view.data, view.data + half.volume(),
                              expected.begin() + half.lo[kD] * 45);
          }
      });
      const bool harmless_here = error.empty() && same;
      CHECK((harmless_here || contains(error, "train-00000.h5")));
      ++(harmless_here ? harmless : found);
    }
    CHECK(found > 1000);
    MESSAGE(found, " flipped bits found, ", harmless, " without consequence");
  }
}

TEST_CASE("archive: reading a whole sample detects one that does not match its checksum") {
  const TempDirectory directory;
  write_archive(directory.path(), 0, 0, 2, 2, 1);
  const hid_t file = H5Fopen((directory / "train-00000.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t id = H5Dopen2(file, "/crc32c", H5P_DEFAULT);
  std::array<std::uint32_t, 2> sums{};
  REQUIRE(H5Dread(id, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, sums.data()) >= 0);
  sums[1] ^= 1U;
  REQUIRE(H5Dwrite(id, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, sums.data()) >= 0);
  H5Dclose(id);
  H5Fclose(file);
  const Comm alone = test_world().split(test_world().rank(), 0);
  const auto dataset = open_dataset(alone, directory.path(), "train", kLarge, kTargets);
  const auto reader = dataset->reader();
  for (const DataType type : {DataType::kInt16, DataType::kFloat32}) {
    const Tensor whole(Box::whole(kLarge), 1, type);
    reader->read(0, whole.any_view(), {});
    CHECK(contains(error_of([&] { reader->read(1, whole.any_view(), {}); }),
                   "train-00000.h5: sample 1: checksum of the voxels: expected 0x"));
  }
}

TEST_CASE("archive: a file that does not fit the disk leaves nothing behind") {
  const TempDirectory directory;
  write_archive(directory.path(), 0, 0, 1, 1, 1);
  const auto bytes = static_cast<std::int64_t>(fs::file_size(directory / "train-00000.h5"));
  fs::remove(directory / "train-00000.h5");
  int refused = 0;
  for (std::int64_t limit = 0; limit < bytes; limit += 1009) {
    std::string error;
    {
      const FileSizeLimit full(limit);
      error = error_of([&] { write_archive(directory.path(), 0, 0, 1, 1, 1); });
    }
    CHECK(contains(error, "train-00000.h5"));
    CHECK(contains(error, "File too large"));
    CHECK(directory.entries() == 0);
    ++refused;
  }
  CHECK(refused > 10);
}

}  // namespace
}  // namespace halomesh
