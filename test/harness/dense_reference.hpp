// SPDX-License-Identifier: Apache-2.0
// A dense layer and its gradients by naive loops in double precision.
// Shares only the order of its weight with the layer.
#pragma once

#include <vector>

#include "test/harness/reference.hpp"

namespace halomesh {

/// The weight has the order out, then the input flattened d,h,w,c, as GlobalTensor's values.
inline ReferenceOutput dense_reference(const ReferenceInput& in) {
  const GlobalTensor &src = in.src[0], &dy = in.diff_dst;
  const auto volume = static_cast<std::size_t>(src.shape.volume());
  const auto outputs = static_cast<std::size_t>(dy.shape.c);
  const auto batch = static_cast<std::size_t>(src.batch);
  const std::vector<double>&weight = in.parameters[0], &bias = in.parameters[1];
  ReferenceOutput out;
  out.dst = Estimate(dy.values.size());
  out.diff_src.emplace_back(src.values.size());
  out.diff_parameters = {Estimate(weight.size()), Estimate(bias.size())};
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t o = 0; o < outputs; ++o) {
      const std::size_t y = n * outputs + o;
      out.dst.add(y, bias[o]);
      out.diff_parameters[1].add(o, dy.values[y]);
      for (std::size_t i = 0; i < volume; ++i) {
        const std::size_t x = n * volume + i, w = o * volume + i;
        out.dst.add(y, weight[w], src.values[x]);
        out.diff_src[0].add(x, weight[w], dy.values[y]);
        out.diff_parameters[0].add(w, dy.values[y], src.values[x]);
      }
    }
  // These are the lengths of the sums; the bias is one term more.
  out.dst.terms = static_cast<double>(volume + 1);
  out.diff_src[0].terms = static_cast<double>(outputs);
  for (Estimate& diff : out.diff_parameters) diff.terms = static_cast<double>(batch);
  return out;
}

}  // namespace halomesh
