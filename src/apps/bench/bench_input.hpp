// SPDX-License-Identifier: Apache-2.0
// Generated samples for measurements: counts and targets without any files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Every voxel holds a Poisson-distributed count of mean 1 (the quantiles (k + 1/2) / 256). Each
/// row of a sample is copied from a random offset of one table of such counts, a function of (seed,
/// sample, row), so a part reads the values that the whole sample has there. Scalar targets are
/// uniform in [-1, 1), labels of voxels uniform in [0, classes), as those of samples
/// in [0, sample_classes), which replace scalars if it is above 0. Costs one copy per voxel, like
/// staged samples, so that generating input does not dominate the measurement.
class GeneratedReader final : public SampleReader {
 public:
  GeneratedReader(std::uint64_t seed, const Shape& shape, std::int64_t classes = 1,
                  std::int64_t sample_classes = 0);

  void read(std::int64_t sample, AnyView dst, AnyView targets) override;

 private:
  template <class T>
  void fill(std::int64_t sample, TensorView<T> dst, const std::vector<T>& table) const;

  void fill_labels(std::int64_t sample, TensorView<std::uint8_t> labels) const;

  static constexpr std::int64_t kOffsets = 1 << 16;  // places in the table where rows may begin

  std::uint64_t seed_;
  Shape shape_;
  std::uint32_t classes_, sample_classes_;
  std::vector<std::int16_t> counts_;
  std::vector<float> logarithms_;
};

}  // namespace halomesh
