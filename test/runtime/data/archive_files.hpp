// SPDX-License-Identifier: Apache-2.0
// Samples of a known formula in blocks of several chunks, and archives of them.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/data/archive.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {

// Several chunks along each axis, the last ones cut short.
inline const Shape kLarge{2, 19, 17, 70};

inline std::vector<std::int16_t> voxels_of(std::int64_t sample, const Shape& shape = kLarge) {
  std::vector<std::int16_t> x;
  for (std::int64_t at = 0; at < shape.volume(); ++at) x.push_back(voxel(sample, at));
  return x;
}
inline std::vector<float> targets_of(std::int64_t sample) {
  std::vector<float> y;
  for (std::int64_t t = 0; t < kTargets; ++t) y.push_back(target(sample, t));
  return y;
}

/// Samples first .. first+count-1 of `all` as one file of an archive of split train.
inline void write_archive(const std::filesystem::path& directory, std::int64_t file,
                          std::int64_t first, std::int64_t count, std::int64_t all, int gzip,
                          const Shape& shape = kLarge) {
  ArchiveWriter writer(directory / archive_name("train", file),
                       {count, first, all, shape, kTargets, gzip, "a formula"});
  for (std::int64_t i = first; i < first + count; ++i)
    writer.write(voxels_of(i, shape), targets_of(i));
  writer.commit();
}

/// Reads blocks of every sample, in uneven cuts, and compares them with the formula.
inline std::int64_t compare_blocks(const Dataset& dataset, const Shape& s = kLarge) {
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
      reader->read(sample, counts.any_view(), scalars(y));
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
  for (std::int64_t sample = dataset.size() - 1; sample >= 0; --sample) {
    CHECK(streamed(*reader, sample, y) == voxels_of(sample, s));
    CHECK(y == targets_of(sample));
  }
  return compared;
}

}  // namespace halomesh
