// SPDX-License-Identifier: Apache-2.0
// Layers as pure geometry, to build networks without any mathematics.
// Declares what real layers declare: windows, pointwise maps, layers split over their input.
#pragma once

#include "partition/layer_geometry.hpp"
#include "partition/window.hpp"

namespace halomesh {

/// One window on all axes; `filters` channels with a weight and a bias, or 0 for pooling.
class WindowLayer : public LayerGeometry {
 public:
  WindowLayer(const AxisWindow& window, std::int64_t filters, bool over_channels = false)
      : window_{window, window, window}, filters_(filters), over_channels_(over_channels) {}
  bool splits_over_channels() const override { return over_channels_; }
  Shape dst_shape(std::span<const Shape> src) const override {
    const Spatial e = dst_extents(window_, src[0].spatial());
    return {filters_ > 0 ? filters_ : src[0].c, e[0], e[1], e[2]};
  }
  Box needs(const Box& dst, std::size_t, std::span<const Shape> src) const override {
    Box box = needed_box(window_, dst, src[0]);
    if (filters_ == 0) box.lo[kC] = dst.lo[kC], box.hi[kC] = dst.hi[kC];
    return box.normalized();
  }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    if (filters_ == 0) return {};
    const std::int64_t k = window_[0].kernel;
    return {{"weight", filters_, {src[0].c, k, k, k}, false, 0, 0},
            {"bias", filters_, {1, 1, 1, 1}, false, 0, 0}};
  }

 private:
  Window window_;
  std::int64_t filters_;
  bool over_channels_;
};

/// Each element on its own; any number of inputs of one shape.
class PointLayer : public LayerGeometry {
 public:
  Shape dst_shape(std::span<const Shape> src) const override { return src[0]; }
  Box needs(const Box& dst, std::size_t, std::span<const Shape>) const override { return dst; }
};

/// A dense layer: partial sums of `out` outputs from the block of the input that a part owns.
class SplitLayer : public LayerGeometry {
 public:
  explicit SplitLayer(std::int64_t out) : out_(out) {}
  Shape dst_shape(std::span<const Shape>) const override { return {out_, 1, 1, 1}; }
  Box needs(const Box&, std::size_t, std::span<const Shape> src) const override {
    return Box::whole(src[0]);
  }
  bool splits_over_input() const override { return true; }
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    return {{"weight", out_, src[0], true, 0, 0}};
  }
  ParameterSlice parameter_slice(std::size_t, const LayerBoxes& boxes,
                                 std::span<const Shape>) const override {
    if (boxes.dst_produced.empty()) return {};
    return {{0, out_}, boxes.src_needed[0]};
  }

 private:
  std::int64_t out_;
};

/// Convolution that keeps extents, kernel 2: nothing before, one plane after.
inline constexpr AxisWindow kKernel2{2, 1, 1, 0, 1};
/// Pooling by two.
inline constexpr AxisWindow kPool2{2, 2, 1, 0, 0};

}  // namespace halomesh
