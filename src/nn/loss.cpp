// SPDX-License-Identifier: Apache-2.0
// Means over classes: see loss.hpp.
#include "src/nn/loss.hpp"

namespace halomesh {

double mean_iou(std::span<const ClassQuality> classes) {
  double sum = 0;
  for (const ClassQuality& c : classes) sum += c.iou;
  return sum / static_cast<double>(classes.size());
}

double mean_dice(std::span<const ClassQuality> classes) {
  double sum = 0;
  for (const ClassQuality& c : classes) sum += c.dice;
  return sum / static_cast<double>(classes.size());
}

}  // namespace halomesh
