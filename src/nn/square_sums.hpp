// SPDX-License-Identifier: Apache-2.0
// Sums of squares in double precision: what norms of gradients and weights are made of.
#pragma once

#include <span>
#include <vector>

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

}  // namespace halomesh
