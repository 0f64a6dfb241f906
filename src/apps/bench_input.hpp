// Samples out of nothing for measurements: counts and targets that need no file.
// Knows nothing of what is measured.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/dataset.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Every voxel holds a count of Poisson's law of mean 1 (its quantiles (k + 1/2) / 256), drawn by
/// Philox from (seed, sample, global index) alone: a part reads what it would read of the whole.
/// Targets are uniform in [-1, 1). Costs one table look-up a voxel, about what a file's would.
class GeneratedReader final : public SampleReader {
 public:
  GeneratedReader(std::uint64_t seed, const Shape& shape);

  void read(std::int64_t sample, AnyView dst, std::span<float> targets) override;

 private:
  template <class T>
  void fill(std::int64_t sample, TensorView<T> dst, const std::array<T, 256>& values) const;

  std::uint64_t seed_;
  Shape shape_;
  std::array<std::int16_t, 256> counts_{};
  std::array<float, 256> logarithms_{};
};

}  // namespace halomesh
