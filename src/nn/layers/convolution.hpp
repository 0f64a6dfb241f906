// SPDX-License-Identifier: Apache-2.0
// A 3-D convolution with bias on oneDNN. Must not depend on the library's API (see onednn.hpp) or
// on exchanges.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/nn/layer.hpp"
#include "src/nn/layers/window_options.hpp"
#include "src/nn/onednn.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

struct ConvolutionOptions {
  std::int64_t filters = 1;
  WindowOptions window;
};

/// dst(n,o,d,h,w) = bias(o) + sum over i,td,th,tw of weight(o,i,td,th,tw) * src(n,i,...) with the
/// src planes of AxisWindow; planes outside the tensor are zero (cross-correlation). Weight order
/// in memory: out,in,kd,kh,kw. Samples are computed one by one.
///
/// A chunk whose src and dst boxes are contiguous in their spans is computed in place; otherwise it
/// goes through a dense buffer made by prepare().
class Convolution : public Layer {
 public:
  /// Throws Error when there are no filters. The window is checked by dst_shape().
  explicit Convolution(const ConvolutionOptions& options);

  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;

  /// Throws Error for a context that produces only some output channels or holds part of a weight.
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void load_parameters() override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;
  std::vector<std::string> implementations() const override { return kernels_.implementations(); }
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;

 private:
  struct PreparedChunk {
    Box dst, src;
    std::size_t kernel = 0;
  };
  ConvolutionGeometry geometry_of(const Box& dst, const Box& src) const;
  void reserve_scratch(const Box& src, const Box& dst);

  ConvolutionOptions options_;
  LayerContext context_;
  std::vector<ParameterView> parameters_;
  Window window_{};  // on the whole input
  std::vector<PreparedChunk> chunks_;
  ConvolutionKernels kernels_;
  AlignedBuffer<float> src_scratch_, dst_scratch_;  // one sample's box, where it is not contiguous
};

}  // namespace halomesh
