// The same samples in HDF5 files of every kind: whole, in blocks, damaged, incomplete.
// Knows nothing of the order in which samples are used.
#include "runtime/hdf5_dataset.hpp"

#include <doctest/doctest.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <span>
#include <thread>

#include "runtime/archive.hpp"
#include "runtime/read_bytes.hpp"
#include "test/runtime/full_disk.hpp"
#include "test/runtime/sample_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

// Several chunks along each axis, the last ones cut short.
const Shape kLarge{2, 19, 17, 70};

std::vector<std::int16_t> voxels_of(std::int64_t sample, const Shape& shape = kLarge) {
  std::vector<std::int16_t> x;
  for (std::int64_t at = 0; at < shape.volume(); ++at) x.push_back(voxel(sample, at));
  return x;
}
std::vector<float> targets_of(std::int64_t sample) {
  std::vector<float> y;
  for (std::int64_t t = 0; t < kTargets; ++t) y.push_back(target(sample, t));
  return y;
}

/// Writes voxels and targets as datasets of one sample or universe.
void write_hdf5(const fs::path& path, const Hdf5Kind& kind, const Extents& extents,
                const std::vector<std::int16_t>& x, const std::vector<float>& y,
                const DatasetLayout& layout = {}) {
  Hdf5File file = Hdf5File::create(path);
  file.create_dataset(kind.voxels, Hdf5Type::kInt16, extents, layout);
  file.write(kind.voxels, Slab::whole(extents), std::span(x));
  file.create_dataset(kind.targets, Hdf5Type::kFloat, {std::ssize(y)});
  file.write(kind.targets, Slab::whole({std::ssize(y)}), std::span(y));
  file.close();
}

Extents extents_of(const Shape& s) { return {s.d, s.h, s.w, s.c}; }

/// Samples first .. first+count-1 of `all` as one file of an archive of split train.
void write_archive(const fs::path& directory, std::int64_t file, std::int64_t first,
                   std::int64_t count, std::int64_t all, int gzip, const Shape& shape = kLarge) {
  ArchiveWriter writer(directory / archive_name("train", file),
                       {count, first, all, shape, kTargets, gzip, "a formula"});
  for (std::int64_t i = first; i < first + count; ++i)
    writer.write(voxels_of(i, shape), targets_of(i));
  writer.commit();
}

/// Reads blocks of every sample, in uneven cuts, and compares them with the formula.
std::int64_t compare_blocks(const Dataset& dataset, const Shape& s = kLarge) {
  const std::vector<Box> boxes = {Box::whole(s),
                                  {{0, 0, 0, 0}, {s.c, s.d / 2, s.h / 3, s.w}},
                                  {{0, s.d / 2, s.h / 3, 0}, {s.c, s.d, s.h, s.w}},
                                  {{1, 3, 7, s.w / 2 - 1}, {2, 4, 9, s.w}},
                                  {{0, s.d - 1, s.h - 1, s.w - 1}, {1, s.d, s.h, s.w}}};
  const auto reader = dataset.reader();
  std::int64_t compared = 0, wrong = 0;
  std::vector<float> y(kTargets);
  for (std::int64_t sample = 0; sample < dataset.size(); ++sample)
    for (const Box& box : boxes) {
      const Tensor counts(box, 1, DataType::kInt16), logs(box, 1);
      reader->read(sample, counts.any_view(), y);
      reader->read(sample, logs.any_view(), {});
      CHECK(y == targets_of(sample));
      const auto view = counts.any_view().as<std::int16_t>();
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
          for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
            for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c, ++compared) {
              const std::int16_t expected = voxel(sample, ((d * s.h + h) * s.w + w) * s.c + c);
              wrong += view.at(0, c, d, h, w) != expected ||
                       logs.view().at(0, c, d, h, w) !=
                           static_cast<float>(std::log1p(static_cast<double>(expected)));
            }
    }
  CHECK(wrong == 0);
  return compared;
}

TEST_CASE("hdf5 data: one sample a file, in any layout") {
  const std::vector<DatasetLayout> layouts = {
      {},
      {{8, 8, 70, 2}},
      {{5, 6, 7, 2}, true, true, 4},
      {{19, 17, 70, 2}, false, false, 1},
      {{1, 17, 70, 1}, false, true, 9},
  };
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) {
    for (std::size_t f = 0; f < layouts.size(); ++f)
      write_hdf5(train / cat("box_", f, f % 2 == 0 ? ".hdf5" : ".h5"), kSampleKind,
                 extents_of(kLarge), voxels_of(static_cast<std::int64_t>(f)),
                 targets_of(static_cast<std::int64_t>(f)), layouts[f]);
  });
  const auto dataset = directory.open(kLarge);
  CHECK(dataset->size() == 5);
  CHECK(compare_blocks(*dataset) > 5 * kLarge.volume());
}

TEST_CASE("hdf5 data: a universe is cut in the published order, or read whole") {
  const Shape box{2, 3, 4, 5}, universe{2, 12, 16, 20};
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) {
    for (std::int64_t u = 0; u < 2; ++u) {
      std::vector<std::int16_t> x(static_cast<std::size_t>(universe.volume()));
      std::size_t at = 0;
      for (std::int64_t d = 0; d < universe.d; ++d)
        for (std::int64_t h = 0; h < universe.h; ++h)
          for (std::int64_t w = 0; w < universe.w; ++w)
            for (std::int64_t c = 0; c < universe.c; ++c)
              x[at++] = static_cast<std::int16_t>(
                  u * 64 + 16 * (d / box.d) + 4 * (h / box.h) + w / box.w + 200 * (d % box.d) +
                  1000 * (h % box.h) + 5000 * (w % box.w) + 100 * c);
      write_hdf5(train / cat("univ_", u, ".hdf5"), kUniverseKind, extents_of(universe), x,
                 targets_of(u), {{4, 4, 20, 2}, false, true, 1});
    }
  });
  const auto cut = directory.open(box);
  REQUIRE(cut->size() == 128);
  const auto reader = cut->reader();
  const Tensor counts(Box::whole(box), 1, DataType::kInt16);
  std::int64_t wrong = 0, compared = 0;
  for (std::int64_t sample = 0; sample < cut->size(); ++sample) {
    std::vector<float> y(kTargets);
    reader->read(sample, counts.any_view(), y);
    CHECK(y == targets_of(sample / 64));
    const auto view = counts.any_view().as<std::int16_t>();
    for (std::int64_t at = 0; at < box.volume(); ++at, ++compared) {
      const std::int64_t c = at % 2, w = at / 2 % 5, h = at / 10 % 4, d = at / 40;
      wrong += view.data[at] != sample + 200 * d + 1000 * h + 5000 * w + 100 * c;
    }
  }
  CHECK(wrong == 0);
  CHECK(compared == 128 * box.volume());

  const auto whole = directory.open(universe);
  CHECK(whole->size() == 2);
  const Tensor one({{0, 11, 15, 19}, {1, 12, 16, 20}}, 1, DataType::kInt16);
  whole->reader()->read(1, one.any_view(), {});
  CHECK(*one.any_view().as<std::int16_t>().data == 64 + 63 + 400 + 3000 + 20000);
  const std::string error = directory.open_error(Shape{2, 6, 8, 10});
  CHECK(contains(error, "/full of 12x16x20x2, expected 6x8x10x2 or 4 times as much"));
  CHECK(contains(error, "try --input 12x16x20x2"));
}

TEST_CASE("hdf5 data: archives, compressed or not, equal the formula, block by block") {
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

TEST_CASE("hdf5 data: a block of an archive touches just the chunks around it") {
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) { write_archive(train.parent_path(), 0, 0, 1, 1, 0); });
  const auto dataset = directory.open(kLarge);
  const auto reader = dataset->reader();
  const auto bytes_of = [&](const Box& box) {
    const Tensor block(box, 1, DataType::kInt16);
    const std::int64_t before = read_bytes();
    reader->read(0, block.any_view(), {});
    return read_bytes() - before;
  };
  constexpr std::int64_t kChunk = 8 * 8 * 64 * 2 * 2 + 4;  // voxels and a checksum
  CHECK(bytes_of({{0, 0, 0, 0}, {2, 8, 8, 64}}) == kChunk);
  CHECK(bytes_of({{0, 7, 7, 63}, {2, 9, 9, 65}}) == 8 * kChunk);
  CHECK(bytes_of(Box::whole(kLarge)) == 3 * 3 * 2 * kChunk);
}

TEST_CASE("hdf5 data: archives made twice are the same bytes") {
  const SharedDirectory directory;
  directory.fill([&](const fs::path& train) {
    for (const char* name : {"a", "b"}) {
      fs::create_directory(train / name);
      write_archive(train / name, 0, 0, 2, 2, 4);
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // no time of day is in them
    }
    CHECK(contents(train / "a" / "train-00000.h5") == contents(train / "b" / "train-00000.h5"));
    CHECK(fs::file_size(train / "a" / "train-00000.h5") > 1000);
  });
}

TEST_CASE("hdf5 data: no flipped byte of an archive changes what is read") {
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
        const auto dataset = Dataset::open(alone, directory.path(), "train", shape, kTargets);
        same = dataset->size() == 2;
        const auto reader = dataset->reader();
        // In two blocks: chunks alone must tell, without the checksum of the whole sample.
        for (std::int64_t sample = 0; same && sample < 2; ++sample)
          for (const Box& half :
               {Box{{0, 0, 0, 0}, {1, 2, 9, 5}}, Box{{0, 2, 0, 0}, {1, 3, 9, 5}}}) {
            const Tensor block(half, 1, DataType::kInt16);
            std::vector<float> y(kTargets);
            reader->read(sample, block.any_view(), y);
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

TEST_CASE("hdf5 data: a sample that is not the one of its checksum is told when read whole") {
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
  const auto dataset = Dataset::open(alone, directory.path(), "train", kLarge, kTargets);
  const auto reader = dataset->reader();
  for (const DataType type : {DataType::kInt16, DataType::kFloat32}) {
    const Tensor whole(Box::whole(kLarge), 1, type);
    reader->read(0, whole.any_view(), {});
    CHECK(contains(error_of([&] { reader->read(1, whole.any_view(), {}); }),
                   "train-00000.h5: sample 1: checksum of the voxels: expected 0x"));
  }
}

TEST_CASE("hdf5 data: what is missing, mixed or of another shape is told on every rank") {
  const SharedDirectory directory;
  const auto archive = [&](std::int64_t file, std::int64_t first, std::int64_t all) {
    directory.fill([&](const fs::path& train) {
      write_archive(train.parent_path(), file, first, 2, all, 1, kShape);
    });
  };
  archive(0, 0, 6);
  CHECK(contains(directory.open_error(), "train-00000.h5 ends before sample 2 of 6"));
  archive(2, 4, 6);
  CHECK(contains(directory.open_error(), "train-00002.h5 starts with sample 4 of 6, expected 2"));
  archive(1, 2, 6);
  CHECK(directory.open()->size() == 6);
  CHECK(contains(directory.open_error(Shape{2, 3, 4, 6}), "/x of 2x3x4x5x2, expected 2x3x4x6x2"));
  CHECK(contains(directory.open_error(Shape{2, 3, 4, 6}), "try --input 3x4x5x2"));
  CHECK(contains(error_of([&] { directory.open(kShape, 4); }), "set --targets 3"));
  directory.fill([](const fs::path& train) {
    write_hdf5(train / "a.hdf5", kSampleKind, extents_of(kShape), voxels_of(0, kShape),
               targets_of(0));
  });
  CHECK(contains(directory.open_error(), "holds samples in two formats, such as train-0000"));
  directory.fill([](const fs::path& train) {
    for (int f = 0; f < 3; ++f) fs::remove(train.parent_path() / archive_name("train", f));
  });
  CHECK(directory.open()->size() == 1);
  directory.fill([](const fs::path& train) {
    write_hdf5(train / "b.hdf5", kUniverseKind, extents_of(kShape), voxels_of(0, kShape),
               targets_of(0));
  });
  CHECK(contains(directory.open_error(), "cannot open dataset /x"));
  directory.fill([](const fs::path& train) {
    put_contents(train / "b.hdf5", contents(train / "a.hdf5").substr(0, 1500));
  });
  CHECK(contains(directory.open_error(), "b.hdf5: cannot open it as HDF5"));
}

TEST_CASE("hdf5 data: a bad sample is refused by file, sample, value and cure") {
  const SharedDirectory directory;
  auto x = voxels_of(0);
  auto y = targets_of(0);
  x[((9 * 17 + 16) * 70 + 65) * 2 + 1] = -7;
  y[2] = std::numeric_limits<float>::quiet_NaN();
  directory.fill([&](const fs::path& train) {
    write_hdf5(train / "a.h5", kSampleKind, extents_of(kLarge), x, targets_of(0), {{8, 8, 64, 2}});
    write_hdf5(train / "b.h5", kSampleKind, extents_of(kLarge), voxels_of(1), y);
  });
  const auto dataset = directory.open(kLarge);
  const auto reader = dataset->reader();
  for (const Box& box : {Box::whole(kLarge), Box{{1, 9, 10, 60}, {2, 10, 17, 70}}}) {
    const Tensor block(box, 1);
    CHECK(contains(error_of([&] { reader->read(0, block.any_view(), {}); }),
                   "a.h5: sample 0: voxel (d,h,w,c) = (9,16,65,1) is -7"));
  }
  CHECK(contains(error_of([&] { reader->read(1, {}, {}); }), "b.h5: sample 0: target 2 is nan"));
  CHECK_THROWS_AS(reader->read(2, {}, {}), Error);
}

TEST_CASE("hdf5 data: an archive that does not fit the disk leaves nothing behind") {
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
