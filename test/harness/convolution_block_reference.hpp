// SPDX-License-Identifier: Apache-2.0
// A convolution, max pooling and leaky ReLU with their gradients by naive loops in double
// precision, rounded to bf16 as the layer promises. Builds on the convolution's reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "error.hpp"
#include "src/nn/counts.hpp"
#include "src/nn/kernels/convolution_block.hpp"
#include "test/harness/convolution_reference.hpp"

namespace halomesh {

/// The way in which results are judged. kBounded uses bounds on rounding; then no two elements of a
/// window and no maximum and zero may be so close that rounding could decide (it throws, naming the
/// window). With kExact, inputs are so few and short that fp32 adds them without rounding; results
/// must be equal, including ties, unless a further sum is rounded to bf16.
enum class Judgement { kBounded, kExact };

inline double rounded(double value, DataType type) {
  const auto value32 = static_cast<float>(value);
  return static_cast<double>(type == DataType::kBfloat16 ? static_cast<float>(Bfloat16(value32))
                                                         : value32);
}

/// The convolution's output element that becomes each output element, and its gradient.
struct PooledMaximum {
  std::size_t conv = 0;
  double slope = 1;
};

inline PooledMaximum pool_window(const ConvolutionBlockOptions& o, const GlobalTensor& conv,
                                 const Estimate& estimate, Judgement judgement, std::int64_t n,
                                 std::int64_t c, const Spatial& p) {
  const auto each_tap = [&](const auto& visit) {
    for (std::int64_t d = 0; d < o.pool[0]; ++d)
      for (std::int64_t h = 0; h < o.pool[1]; ++h)
        for (std::int64_t w = 0; w < o.pool[2]; ++w)
          visit(
              conv.offset(n, c, p[0] * o.pool[0] + d, p[1] * o.pool[1] + h, p[2] * o.pool[2] + w));
  };
  PooledMaximum largest{conv.offset(n, c, p[0] * o.pool[0], p[1] * o.pool[1], p[2] * o.pool[2])};
  each_tap([&](std::size_t at) {
    if (conv.values[at] > conv.values[largest.conv]) largest.conv = at;
  });
  const double most = conv.values[largest.conv];
  if (!(most > 0)) largest.slope = static_cast<double>(o.slope);
  if (judgement == Judgement::kExact) return largest;
  const double error = estimate.tolerance(largest.conv);
  bool decided = std::abs(most) > error;
  each_tap([&](std::size_t at) {
    const bool same = conv.values[at] == most &&  // equal sums, such as the bias alone
                      estimate.magnitudes[at] == estimate.magnitudes[largest.conv];
    decided = decided && (same || most - conv.values[at] > error + estimate.tolerance(at));
  });
  require(decided, text("rounding may decide the pooled window {} {} {}", p[0], p[1], p[2]),
          "choose another seed");
  return largest;
}

inline ReferenceInput as_computed(const ReferenceInput& in, const ConvolutionBlockOptions& o,
                                  DataType src_type, const std::vector<ChannelScale>& scales) {
  ReferenceInput computed = in;
  std::size_t at = 0;  // channels are the last axis
  for (double& x : computed.src[0].values) {
    const ChannelScale scale = scales.empty() ? ChannelScale{} : scales[at++ % scales.size()];
    if (src_type == DataType::kInt16)
      x = static_cast<double>(static_cast<float>((std::log1p(x) - scale.mean) / scale.deviation));
    x = rounded(rounded(x, src_type == DataType::kBfloat16 ? src_type : o.compute), o.compute);
  }
  for (double& w : computed.parameters[0]) w = rounded(w, o.compute);
  return computed;
}

/// The reference of a block with options `o` whose input has type `src_type`; counts are scaled by
/// channel unless `scales` is empty. An input gradient in bf16 is rounded by each of the parts that
/// add to it, at most `adders`, and after each addition.
inline Reference convolution_block_reference(const ConvolutionBlockOptions& o, DataType src_type,
                                             const std::vector<ChannelScale>& scales,
                                             Judgement judgement, std::int64_t adders) {
  return [=](const ReferenceInput& in) {
    const Window window = o.window.resolve(in.src[0].shape.spatial());
    const Reference convolution = convolution_reference(window);
    ReferenceInput computed = as_computed(in, o, src_type, scales);
    const GlobalTensor& y = in.diff_dst;
    const Spatial extents = dst_extents(window, in.src[0].shape.spatial());
    computed.diff_dst =
        GlobalTensor({o.filters, extents[0], extents[1], extents[2]}, in.src[0].batch);
    const Estimate estimate = convolution(computed).dst;
    GlobalTensor conv = computed.diff_dst;
    std::transform(estimate.values.begin(), estimate.values.end(), conv.values.begin(),
                   [&](double v) { return rounded(v, o.compute); });
    Estimate dst(y.values.size());
    for (std::int64_t n = 0; n < y.batch; ++n)
      for (std::int64_t d = 0; d < y.shape.d; ++d)
        for (std::int64_t h = 0; h < y.shape.h; ++h)
          for (std::int64_t w = 0; w < y.shape.w; ++w)
            for (std::int64_t c = 0; c < y.shape.c; ++c) {
              const auto largest = pool_window(o, conv, estimate, judgement, n, c, {d, h, w});
              const std::size_t at = y.offset(n, c, d, h, w);
              dst.values[at] = rounded(largest.slope * conv.values[largest.conv], o.dst);
              dst.magnitudes[at] = estimate.magnitudes[largest.conv];
              computed.diff_dst.values[largest.conv] =
                  rounded(largest.slope * rounded(y.values[at], o.dst), o.compute);
            }
    ReferenceOutput out = convolution(computed);
    dst.terms = out.dst.terms + 1;  // and the product with the slope, at most 1
    out.dst = dst;
    Estimate& dx = out.diff_src[0];
    for (Estimate* e : {&dx, &out.diff_parameters[0], &out.diff_parameters[1]}) e->terms += 1;
    if (judgement == Judgement::kBounded) return out;
    for (Estimate* e : {&out.dst, &out.diff_parameters[0], &out.diff_parameters[1]})
      std::fill(e->magnitudes.begin(), e->magnitudes.end(), 0.0);
    for (double& v : dx.values) v = rounded(v, src_type);
    if (src_type == DataType::kBfloat16 && adders > 1)
      dx.terms = static_cast<double>(2 * adders) *
                 0x1p16;  // 2^-8, half the distance of neighbouring bf16, is 2^16 2^-24
    else
      std::fill(dx.magnitudes.begin(), dx.magnitudes.end(), 0.0);
    return out;
  };
}

}  // namespace halomesh
