// SPDX-License-Identifier: Apache-2.0
// Inner products in a fixed order of sums, which gives equal bits for any batch and number of
// threads.
#pragma once

#include <cstdint>

#include "src/nn/exact_sum.hpp"

namespace halomesh {

/// dst(n,o) = bias(o) + sum over i of weight(o,i) * src(n,i) for `in` inputs and `out` outputs; all
/// arrays are dense, fp32. Local; nothing allocates memory.
struct OrderedInnerProduct {
  std::int64_t in = 0, out = 0;

  void forward(std::int64_t batch, const float* src, const float* weight, const float* bias,
               float* dst) const;
  void backward_data(std::int64_t batch, const float* diff_dst, const float* weight,
                     float* diff_src) const;
  /// Adds the gradient of each sample, as a term of its own.
  void backward_weights(std::int64_t batch, const float* src, const float* diff_dst,
                        const ExactView& diff_weight, const ExactView& diff_bias) const;
};

}  // namespace halomesh
