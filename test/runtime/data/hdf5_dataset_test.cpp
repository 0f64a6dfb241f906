// SPDX-License-Identifier: Apache-2.0
// The same samples in HDF5 files of every kind: whole, in blocks, damaged, incomplete.
#include "runtime/data/hdf5_dataset.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <span>

#include "runtime/data/archive.hpp"
#include "test/runtime/data/archive_files.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// Writes voxels and targets as datasets of one sample or universe.
void write_hdf5(const fs::path& path, const Hdf5Kind& kind, const Extents& extents,
                const std::vector<std::int16_t>& x, const std::vector<float>& y,
                const DatasetLayout& layout = {}) {
  Hdf5File file = Hdf5File::create(path);
  file.create_dataset(kind.voxels.name, Hdf5Type::kInt16, extents, layout);
  file.write(kind.voxels.name, Slab::whole(extents), std::span(x));
  file.create_dataset(kind.targets, Hdf5Type::kFloat, {std::ssize(y)});
  file.write(kind.targets, Slab::whole({std::ssize(y)}), std::span(y));
  file.close();
}

Extents extents_of(const Shape& s) { return {s.d, s.h, s.w, s.c}; }

TEST_CASE("hdf5 data: one sample per file, in any layout") {
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
      write_hdf5(train / fmt::format("box_{}{}", f, f % 2 == 0 ? ".hdf5" : ".h5"), kSampleKind,
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
      write_hdf5(train / fmt::format("univ_{}.hdf5", u), kUniverseKind, extents_of(universe), x,
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
    reader->read(sample, counts.any_view(), scalars(y));
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

TEST_CASE("hdf5 data: missing, mixed or wrongly shaped data are reported on every rank") {
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
  CHECK(contains(directory.open_error(), "b.hdf5 has no dataset /x, only full, unitPar"));
  directory.fill([](const fs::path& train) {
    put_contents(train / "b.hdf5", contents(train / "a.hdf5").substr(0, 1500));
  });
  CHECK(contains(directory.open_error(), "b.hdf5: cannot open it as HDF5"));
}

TEST_CASE("hdf5 data: axes in another order, or too many, are told apart from other extents") {
  const auto problem = [](const Extents& of_x, const Extents& of_y, const Shape& shape) {
    const SharedDirectory directory;
    directory.fill([&](const fs::path& train) {
      Hdf5File file = Hdf5File::create(train / "a.h5");
      file.create_dataset("/x", Hdf5Type::kInt16, of_x);
      file.write<std::int16_t>("/x", Slab::whole(of_x), voxels_of(0, kShape));
      file.create_dataset("/y", Hdf5Type::kFloat, of_y);
      file.write<float>("/y", Slab::whole(of_y), targets_of(0));
      file.close();
    });
    return directory.open_error(shape);
  };
  CHECK(contains(problem({2, 3, 4, 5}, {3}, kShape), "channels come last"));
  CHECK(contains(problem({3, 4, 5, 2}, {3}, {2, 3, 5, 4}), "try --input 3x4x5x2"));
  CHECK(contains(problem({3, 4, 5, 2}, {1, 3}, kShape),
                 "/y of 1x3, expected 3 | the targets of a sample must be a list of 3 numbers"));
}

TEST_CASE("hdf5 data: a file that only seems to hold its sample is refused on every rank") {
  for (const auto& [layout, problem] :
       {std::pair{DatasetLayout{}, "b.h5: /x: its elements were never written"},
        std::pair{DatasetLayout{{3, 4, 5, 1}}, "b.h5: /x: 2 of its 2 chunks were never written"}}) {
    const SharedDirectory directory;
    directory.fill([&, of_x = layout](const fs::path& train) {
      write_hdf5(train / "a.h5", kSampleKind, extents_of(kShape), voxels_of(0, kShape),
                 targets_of(0));
      Hdf5File file = Hdf5File::create(train / "b.h5");
      file.create_dataset("/x", Hdf5Type::kInt16, extents_of(kShape), of_x);
      file.create_dataset("/y", Hdf5Type::kFloat, {kTargets});
      file.write<float>("/y", Slab::whole({kTargets}), targets_of(0));
      file.close();
    });
    CHECK(contains(directory.open_error(), problem));
  }
}

TEST_CASE("hdf5 data: a bad sample is refused, naming file, sample, value and hint") {
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
  CHECK(contains(error_of([&] { streamed(*reader, 0, y); }),
                 "a.h5: sample 0: voxel (d,h,w,c) = (9,16,65,1) is -7"));
  CHECK(contains(error_of([&] { reader->read(1, {}, {}); }), "b.h5: sample 0: target 2 is nan"));
  CHECK_THROWS_AS(reader->read(2, {}, {}), Error);
}

}  // namespace
}  // namespace halomesh
