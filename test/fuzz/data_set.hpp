// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets of data sets share: one file, read as a whole data set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/open_dataset.hpp"
#include "test/fuzz/scratch.hpp"

namespace halomesh::fuzz {

/// The samples that inputs are taken for; the seeds in corpus/ hold such.
inline const Shape kShape{2, 3, 4, 5};
inline constexpr std::int64_t kTargets = 3;

inline void read_sample(SampleReader& reader, std::int64_t sample) {
  std::vector<float> targets(kTargets);
  for (const Box& box : {Box::whole(kShape), Box{{1, 0, 2, 1}, {2, 2, 4, 4}}}) {
    for (const DataType type : {DataType::kInt16, DataType::kFloat32}) {
      const Tensor block(box, 1, type);
      attempt([&] { reader.read(sample, block.any_view(), scalars(targets)); });
    }
    attempt([&] {
      reader.read_slabs(
          sample, box, [](const auto&) {}, scalars(targets));
    });
  }
  attempt([&] {
    reader.stream(
        sample, [](std::int64_t, std::span<const std::byte>) {}, scalars(targets));
  });
}

/// Puts a file of this name in the scratch directory and reads every sample of the split `train` in
/// each way that loaders and staging do: two types and blocks, in layers, and as a stream.
inline void read_data_set(const std::string& name, Bytes bytes) {
  scratch().put(name, bytes);
  attempt([&] {
    const auto dataset =
        open_dataset(scratch().world(), scratch().path(), "train", kShape, kTargets);
    const auto reader = dataset->reader();
    for (std::int64_t sample = 0; sample < dataset->size(); ++sample) read_sample(*reader, sample);
  });
}

}  // namespace halomesh::fuzz
