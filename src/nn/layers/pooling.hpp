// SPDX-License-Identifier: Apache-2.0
// Max and average pooling over any undilated window: overlapping, padded, with gaps.
// Uses its own kernels on strided channels-last views. Must not depend on exchanges.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/layer.hpp"
#include "src/nn/window_options.hpp"

namespace halomesh {

/// The common part of both kinds of pooling: the geometry, and the windows that cover each input
/// plane. Padding is never read: windows at the border have fewer taps. Backward is deterministic
/// for any number of threads, as each input element adds up its windows in a fixed order.
class Pooling : public Layer {
 public:
  /// Input and output are of `type`, kFloat32 or kBfloat16. Throws Error for a dilation other than
  /// 1.
  Pooling(const WindowOptions& window, DataType type);

  /// Has the channels of the input; throws Error unless there is one input that the window fits.
  Shape dst_shape(std::span<const Shape> src) const override;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const override;
  bool splits_over_channels() const override { return true; }
  DataType dst_type(std::span<const DataType> src) const override;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  std::int64_t forward_flops(std::span<const Shape> src) const override;

 protected:
  /// One pixel of one sample, in global coordinates.
  struct Pixel {
    std::int64_t n, d, h, w;
  };
  template <class T>
  struct Taps;

  /// The input plane of tap 0 of the window of dst plane `dst`; below 0 where it is padding.
  std::int64_t first_plane(std::size_t axis, std::int64_t dst) const {
    return dst * window_[axis].stride - window_[axis].pad_before;
  }
  /// The taps of the window of dst plane `dst` that lie inside the input: at least one.
  Range taps_inside(std::size_t axis, std::int64_t dst) const;
  /// The elements of `src` under the window of a dst pixel, from channel `channel` on.
  template <class T>
  Taps<T> taps_of(const Pixel& dst, TensorView<T> src, std::int64_t channel) const;
  /// Calls body(dst pixel, tap) for each produced window over a src pixel, in d,h,w order. The tap
  /// is numbered in d,h,w order of the whole window.
  template <class Body>
  void for_each_window_over(const Pixel& src, const Body& body) const;

  /// For example "2x2x2 same bf16".
  std::string form_text() const { return text_of(options_) + ' ' + name_of(type_); }
  DataType type() const { return type_; }
  /// The first plane behind the input and its optional padding; a last window added by `ceil`
  /// reaches further.
  std::int64_t padded_end(std::size_t axis) const;
  const Window& window() const { return window_; }
  const LayerContext& context() const { return context_; }

 private:
  WindowOptions options_;
  DataType type_;
  Window window_{};
  Spatial src_extents_{};
  LayerContext context_;
  // Per axis and plane of src_needed: the produced planes whose windows cover it.
  std::array<std::vector<Range>, 3> windows_over_;
};

/// The largest element of each window. The first of equal ones in d,h,w order gets the gradient; a
/// window that contains NaN gives NaN. In training, one byte per output element (sample, produced
/// box) records the argmax, so that backward reads neither src nor dst.
class MaxPooling final : public Pooling {
 public:
  /// Throws Error for a window of more than 255 taps or a dilation other than 1.
  explicit MaxPooling(const WindowOptions& window, DataType type = DataType::kFloat32);

  std::string kernel_name() const override { return "max pooling " + form_text(); }
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  template <class T>
  void scatter(TensorView<const T> diff_dst, TensorView<T> diff_src) const;
  template <class T>
  void gather(TensorView<const T> diff_dst, TensorView<T> diff_src) const;

  TensorView<std::uint8_t> argmax_;  ///< view of storage_; spans dst_produced
  AlignedBuffer<std::uint8_t> storage_;
};

/// Whether the padding that a window covers counts as elements (zeros) of the mean.
enum class PaddingCount { kExclude, kInclude };

/// The mean of each window: by default over the elements inside the input, as in TensorFlow's
/// avg_pool; with kInclude over all taps of the window except those behind the padding after the
/// input, as in PyTorch with ceil_mode.
class AveragePooling final : public Pooling {
 public:
  explicit AveragePooling(const WindowOptions& window, PaddingCount count = PaddingCount::kExclude,
                          DataType type = DataType::kFloat32)
      : Pooling(window, type), count_(count) {}

  std::string kernel_name() const override { return "average pooling " + form_text(); }
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) override;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  // Per axis and plane of dst_produced, the taps that count; the divisor is their product.
  std::array<std::vector<std::int64_t>, 3> counts_;

  // The inverse of the number of elements in the mean for a dst pixel.
  float weight(const Pixel& dst) const;

  PaddingCount count_;
};

}  // namespace halomesh
