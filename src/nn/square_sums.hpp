// SPDX-License-Identifier: Apache-2.0
// Sums of squares in double precision, and the norms of gradients and weights made of them.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "src/nn/optimizer.hpp"

namespace halomesh {

/// Adds in an order that depends neither on the number of threads nor on their timing, so that a
/// run can be repeated bit for bit. Keeps memory for the largest sum so far.
class SquareSums {
 public:
  /// The sum of the squares of `values`; 0 for none. Local.
  double of(std::span<const float> values);

 private:
  std::vector<double> chunks_;
};

/// The norms of every whole tensor of Parameters that is trained, its values and its gradients.
class NormSums {
 public:
  /// Takes each slice from one of its holders and, unless `sum` is null, adds up all parts in one
  /// message. Collective over the group if `sum` is. Allocates only the first time.
  void take(Parameters& parameters, const SumOverParts* sum);
  double of_values(std::size_t placement) const { return std::sqrt(sums_[2 * placement]); }
  double of_diffs(std::size_t placement) const { return std::sqrt(sums_[2 * placement + 1]); }
  /// of_values() / of_diffs(), or 1 where either is 0.
  float ratio(std::size_t placement) const;

 private:
  SquareSums squares_;
  std::vector<double> sums_;  // per tensor: squares of its values, and of its gradients
};

}  // namespace halomesh
