// SPDX-License-Identifier: Apache-2.0
// See staged_samples.hpp.
#include "partition/samples/staged_samples.hpp"

#include <utility>

namespace halomesh {

StagedSamples StagedSamples::chosen(std::span<const std::int64_t> numbers) const {
  if (each_) return *this;
  std::vector<Shape> shapes;
  shapes.reserve(numbers.size());
  for (const std::int64_t number : numbers) shapes.push_back(shape(number));
  return {std::move(shapes), parts_};
}

}  // namespace halomesh
