// SPDX-License-Identifier: Apache-2.0
// A convolution of each channel with a filter of its own, by kernels of our own on channels-last
// views, since the library has none for three dimensions or, backward, for dilation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/kernels/channel_sums.hpp"
#include "src/nn/kernels/transposed_window.hpp"
#include "src/nn/layer.hpp"
#include "src/nn/window_options.hpp"

namespace halomesh {

struct DepthwiseOptions {
  WindowOptions window;
  bool bias = true;
  DataType type = DataType::kFloat32;  ///< type of input and output: kFloat32 or kBfloat16
  /// The initial weights; biases begin with zeros, except with kFanInUniform, as in PyTorch.
  InitialValues::Kind initial = InitialValues::Kind::kGlorotUniform;
  /// The gradient of such a convolution with respect to its input, which enlarges extents.
  bool transposed = false;
  Spatial output_padding{};  ///< see TransposedWindow; only for transposed ones
};

/// dst(n,c,d,h,w) = bias(c) + sum over td,th,tw of weight(c,td,th,tw) * src(n,c,...) with the src
/// planes of AxisWindow; planes outside the tensor are zero. Weight order in memory: c,kd,kh,kw.
/// A transposed one is dst(n,c,y) = bias(c) + sum over t, x with x*stride - pad_before +
/// t*dilation = y of weight(c,t) * src(n,c,x). Sums are in fp32. Any range of channels can be
/// computed alone. Results do not depend on the number of threads.
class DepthwiseConvolution final : public Layer {
 public:
  explicit DepthwiseConvolution(const DepthwiseOptions& options);

  const DepthwiseOptions& options() const { return options_; }

  /// Has the channels of the input; throws Error unless there is one input that the window fits.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return true; }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override;
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;
  std::vector<ThreadShare> thread_shares(std::span<const Shape> src, const Box& dst,
                                         int threads) const override;

  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void load_parameters() override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
  void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                           AnyConstView diff_dst) override;

 private:
  /// One tap of an axis that reaches a plane.
  struct Tap {
    std::int64_t tap, plane;
  };
  /// The taps that each plane of a block reads along one axis; those of plane lo + i begin at
  /// first[i].
  struct AxisTaps {
    std::int64_t lo = 0;
    std::vector<std::size_t> first;
    std::vector<Tap> taps;
    std::span<const Tap> of(std::int64_t plane) const {
      const auto i = static_cast<std::size_t>(plane - lo);
      return std::span(taps).subspan(first[i], first[i + 1] - first[i]);
    }
  };
  /// `count` pixels of a row that have the same taps, from w on.
  struct PixelRun {
    std::int64_t w, count;
  };
  /// The pixels of a run are pixel_step apart, and the pixels that a tap reaches from them
  /// plane_step.
  struct Taps {
    std::array<AxisTaps, 3> axes;
    std::vector<PixelRun> runs;
    std::int64_t pixel_step = 1, plane_step = 1;
    void find_runs(std::int64_t pixels, std::int64_t planes);
  };
  /// One tap of a pixel: its place in the kernel, and the offset of the pixel that it reaches.
  struct Term {
    std::int64_t tap, offset;
  };
  template <class T>
  std::span<const Term> find_terms(const Taps& taps, TensorView<const T> from, std::int64_t n,
                                   std::int64_t d, std::int64_t h, std::int64_t w);
  template <class T>
  void gather(const Pass& pass, const Taps& taps, TensorView<const T> from, TensorView<T> to,
              const Box& box, bool with_bias);
  template <class T>
  void add_weight_gradient(TensorView<const T> src, TensorView<const T> diff_dst,
                           std::int64_t chunk, std::int64_t chunks, std::int64_t part,
                           std::int64_t parts);
  template <class T>
  void sum_bias_gradient(TensorView<const T> diff_dst);
  float* partial_sums(std::int64_t chunk, std::int64_t block);
  const Box& windows() const;
  TransposedWindow transposed_window() const { return {options_.window, options_.output_padding}; }
  std::int64_t tap_count() const;

  DepthwiseOptions options_;
  LayerContext context_;
  std::vector<ParameterView> parameters_;
  std::int64_t channels_ = 0;       // channels of dst_produced
  Taps forward_taps_, data_taps_;   // by plane of dst_produced, and of src_needed
  std::vector<Term> terms_;         // per thread, as many as taps
  AlignedBuffer<float> packed_;     // tap, channel; then the bias
  AlignedBuffer<float> gradients_;  // chunk, block of channels, tap (the last is the bias), lane
  ChannelSums bias_sums_;           // for transposed convolutions
};

}  // namespace halomesh
