// SPDX-License-Identifier: Apache-2.0
// Files of predicted classes: see segmentation_writer.hpp.
#include "src/apps/train/segmentation_writer.hpp"

#include <algorithm>
#include <cmath>

namespace halomesh {

std::uint8_t largest_class(const float* outputs, std::int64_t classes) {
  return static_cast<std::uint8_t>(std::max_element(outputs, outputs + classes) - outputs);
}

void probabilities_of(const float* outputs, std::int64_t classes, float* to) {
  const float largest = *std::max_element(outputs, outputs + classes);
  float sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += to[c] = std::exp(outputs[c] - largest);
  for (std::int64_t c = 0; c < classes; ++c) to[c] /= sum;
}

}  // namespace halomesh
