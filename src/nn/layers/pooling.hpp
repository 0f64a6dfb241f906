// SPDX-License-Identifier: Apache-2.0
// Max and average pooling over any window: overlapping, padded, dilated, with gaps.
// Uses its own kernels on strided channels-last views. Must not depend on exchanges.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/layer.hpp"
#include "src/nn/layers/separable.hpp"
#include "src/nn/window_options.hpp"

namespace halomesh {

/// The largest element of each window; padding is never read. The first of equal ones in d,h,w
/// order gets the gradient; a window that contains NaN gives NaN. In training, one byte per output
/// element (sample, produced box) records the argmax, so that backward reads neither src nor dst.
/// Backward is deterministic for any number of threads, as each input element adds up its windows
/// in a fixed order.
class MaxPooling final : public Layer {
 public:
  /// Input and output are of `type`, kFloat32 or kBfloat16. Throws Error for a window of more than
  /// 255 taps.
  explicit MaxPooling(const WindowOptions& window, DataType type = DataType::kFloat32);

  const WindowOptions& window() const { return options_; }

  /// Has the channels of the input; throws Error unless there is one input that the window fits.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return true; }
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  /// One pixel of one sample, in global coordinates.
  struct Pixel {
    std::int64_t n, d, h, w;
  };
  template <class T>
  struct Taps;

  /// The elements of `src` under the window of a dst pixel, from channel `channel` on.
  template <class T>
  Taps<T> taps_of(const Pixel& dst, TensorView<T> src, std::int64_t channel) const;
  /// Calls body(dst pixel, tap) for each produced window over a src pixel, in d,h,w order. The tap
  /// is numbered in d,h,w order of the whole window.
  template <class Body>
  void for_each_window_over(const Pixel& src, const Body& body) const;
  template <class T>
  void scatter(TensorView<const T> diff_dst, TensorView<T> diff_src) const;
  template <class T>
  void gather(TensorView<const T> diff_dst, TensorView<T> diff_src) const;

  WindowOptions options_;
  DataType type_;
  Window window_{};
  Spatial src_extents_{};
  LayerContext context_;
  // Per axis and plane of src_needed: the produced planes whose windows cover it, from the first to
  // the last; and the steps from one to the next, which dilation makes larger than 1.
  std::array<std::vector<Range>, 3> windows_over_;
  Spatial window_steps_{};
  TensorView<std::uint8_t> argmax_;  ///< view of storage_; spans dst_produced
  AlignedBuffer<std::uint8_t> storage_;
};

/// The windows of max poolings that, one behind the other, leave the maximum over all of space.
std::vector<WindowOptions> global_max_windows(Spatial extents);

/// Whether the padding that a window covers counts as elements (zeros) of the mean.
enum class PaddingCount { kExclude, kInclude };

/// The mean of each window: by default over the elements inside the input, as in TensorFlow's
/// avg_pool; with kInclude over all taps of the window except those behind the padding after the
/// input, as in PyTorch with ceil_mode.
class AveragePooling final : public Separable {
 public:
  explicit AveragePooling(const WindowOptions& window, PaddingCount count = PaddingCount::kExclude,
                          DataType type = DataType::kFloat32)
      : Separable("pooling", type), options_(window), count_(count) {}

  std::string kernel_name() const override;

 protected:
  Spatial extents_of(const Spatial& src) const override;
  void append_row(const Spatial& src, std::size_t axis, std::int64_t dst,
                  std::vector<Term>& row) const override;

 private:
  WindowOptions options_;
  PaddingCount count_;
};

}  // namespace halomesh
