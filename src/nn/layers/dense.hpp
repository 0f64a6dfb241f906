// SPDX-License-Identifier: Apache-2.0
// A fully connected layer with bias, split over its input: each part multiplies the block of the
// input that it owns. Must not depend on exchanges or on the library's API.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/nn/layer.hpp"
#include "src/nn/onednn/onednn.hpp"
#include "src/nn/ordered_inner_product.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// dst(n,o) = bias(o) + sum over d,h,w,c of weight(o,d,h,w,c) * src(n,c,d,h,w); dst has the shape
/// {c = out, 1, 1, 1}. A part holds the columns of the weight that belong to its block of src and
/// computes a partial sum of the whole dst; the owner of dst holds the bias and adds it once.
class Dense final : public Layer {
 public:
  /// Throws Error when there are no outputs. With `reproducible`, one part computes everything, in
  /// a fixed order, and adds to exact sums of gradients.
  explicit Dense(std::int64_t out, bool reproducible = false, InitialValues initial = {});

  /// Throws Error unless there is exactly one input.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_input() const override { return !reproducible_; }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;
  /// Throws Error for boxes with which no part could add the bias exactly once: an owner of dst
  /// without a block of src, or an owner of only some outputs.
  ParameterSlice parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                 std::span<const Shape> src) const override;

  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;
  bool sums_exactly() const override { return reproducible_; }
  std::vector<std::string> implementations() const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;

 private:
  const float* dense_src(ConstView src);

  OrderedInnerProduct ordered() const { return {context_.boxes.src_needed[0].volume(), out_}; }

  std::int64_t out_;
  bool reproducible_;
  InitialValues initial_;
  LayerContext context_;
  ParameterView weight_, bias_;
  std::optional<InnerProductKernels> kernels_;
  AlignedBuffer<float> scratch_;  // the block of all samples, where it is not contiguous in src
};

}  // namespace halomesh
