// Samples out of nothing for measurements: counts and targets that need no file.
// Knows nothing of what is measured.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/dataset.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Every voxel holds a count of Poisson's law of mean 1 (its quantiles (k + 1/2) / 256). Each row
/// of a sample is copied from a random place of one table of such counts, which (seed, sample, row)
/// decide: a part reads what it would read of the whole. Targets are uniform in [-1, 1). Costs one
/// copy a voxel, as staged samples do: what is measured is not the making of its input.
class GeneratedReader final : public SampleReader {
 public:
  GeneratedReader(std::uint64_t seed, const Shape& shape);

  void read(std::int64_t sample, AnyView dst, std::span<float> targets) override;

 private:
  template <class T>
  void fill(std::int64_t sample, TensorView<T> dst, const std::vector<T>& table) const;

  static constexpr std::int64_t kOffsets = 1 << 16;  // places in the table where rows may begin

  std::uint64_t seed_;
  Shape shape_;
  std::vector<std::int16_t> counts_;
  std::vector<float> logarithms_;
};

}  // namespace halomesh
