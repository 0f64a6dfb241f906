// SPDX-License-Identifier: Apache-2.0
// The geometry that a layer must declare; all data movement is derived from it. Pure geometry: must
// not depend on a layer's data or mathematics.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "box.hpp"
#include "partition/parameter_slice.hpp"

namespace halomesh {

/// The distribution of a parameter's values before training: from its fans, a number, or both.
struct InitialValues {
  enum class Kind : std::uint8_t {
    /// U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio, AISTATS 2010, equation 16);
    /// zero where both fans are 0.
    kGlorotUniform,
    /// N(0, 2 / fan_in) (He, Zhang, Ren & Sun, ICCV 2015, equation 10): for ReLUs.
    kHeNormal,
    /// U(-a, a), a = 1 / sqrt(fan_in): PyTorch's default for convolutions and dense layers, biases
    /// included.
    kFanInUniform,
    kConstant
  };
  Kind kind = Kind::kGlorotUniform;
  float constant = 0;  ///< the value of kConstant
};

/// The logical extents of one parameter: `out` outputs, each with a block of `in` inputs.
/// Convolution weight: in = {ci, kd, kh, kw}; dense weight: in = the shape of its input; bias:
/// in = {1, 1, 1, 1}.
struct ParameterGeometry {
  std::string name;                      ///< "weight" or "bias"
  std::int64_t out = 0;                  ///< output channels
  Shape in;                              ///< inputs of one output channel
  bool channels_last = false;            ///< flattened order of `in`: d,h,w,c (dense) or c,d,h,w
  std::int64_t fan_in = 0, fan_out = 0;  ///< numbers of inputs and outputs, for `initial`
  InitialValues initial{};
  /// 0: trained by its gradient. Otherwise the parameter is a moving average of the values that
  /// backward_parameters() writes: each step moves it towards them by this share.
  float moving_average = 0;

  std::int64_t volume() const { return out * in.volume(); }
  ParameterSlice whole() const { return {{0, out}, Box::whole(in)}; }
};

/// The boxes of one layer on one part, in global coordinates of the tensors they belong to.
struct LayerBoxes {
  std::vector<Box> src_needed;  ///< one per input
  Box dst_produced;  ///< the box that this part computes (partial sums when split over input)
  Box dst_owned;     ///< the box that this part holds for its consumers
  /// One per input, available before any message: the part's own block or, for the network's input,
  /// which comes with its halo, everything needed.
  std::vector<Box> src_local{};
  /// For a layer with whole gradients: the block of the input whose gradient this part computes,
  /// and the block of the output's gradient needed for that; empty if that gradient is not wanted.
  Box diff_src{}, diff_dst_needed{};
};

/// The part of a layer that makes its gradients have the same bits on every grid of parts. One part
/// computes each element of the input's gradient whole, from the output's gradient around it,
/// instead of adding up contributions of several parts; the parameters' gradients are sums over the
/// cells of the output, which are added exactly. Such a layer has one input, which no other layer
/// reads, and is cut in blocks of whole cells.
class WholeGradients {
 public:
  virtual ~WholeGradients() = default;
  /// The number of equal cells into which the layer divides its output along each axis.
  virtual Spatial gradient_cells(std::span<const Shape> src) const = 0;
  /// The block of the input whose gradient is computed by the part that owns the block `dst` of the
  /// output. These blocks must be disjoint and cover the input; throws Error otherwise.
  virtual Box gradient_box(const Box& dst, std::span<const Shape> src) const = 0;
  /// The box of the output's gradient on which the gradient of the input's block `diff_src`
  /// depends.
  virtual Box gradient_needs(const Box& diff_src, std::span<const Shape> src) const = 0;
};

/// The geometry of one layer. `src` spans hold one global shape per input of the layer.
class LayerGeometry {
 public:
  LayerGeometry() = default;
  LayerGeometry(const LayerGeometry&) = delete;
  LayerGeometry& operator=(const LayerGeometry&) = delete;
  virtual ~LayerGeometry() = default;

  /// Global shape of the output; throws Error when the inputs do not fit the layer.
  virtual Shape dst_shape(std::span<const Shape> src) const = 0;

  /// The box of input `input` that the output box `dst` depends on, clamped to the tensor.
  virtual Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const = 0;

  /// True when every part computes a partial sum of the whole output from the input it owns
  /// (dense layers); the partial sums are then added up on the owners of the output.
  virtual bool splits_over_input() const { return false; }

  /// For such a layer, the output box that a part with these blocks of the inputs, one per input
  /// and not all empty, contributes to; by default the whole output.
  virtual Box contributes(std::span<const Box> src_local, std::span<const Shape> src) const {
    (void)src_local;
    return Box::whole(dst_shape(src));
  }

  /// True when a part may compute only a block of the output's channels, with the rows of the
  /// parameters that belong to them. choose_cuts() decides whether it does.
  virtual bool splits_over_channels() const { return false; }

  /// Null unless the gradients have the same bits on every grid of parts.
  virtual const WholeGradients* whole_gradients() const { return nullptr; }

  /// The parameters, in the order weight, bias, moving averages.
  virtual std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const {
    (void)src;
    return {};
  }

  /// The slice of parameter number `parameter` that a part with these boxes uses; empty if it uses
  /// none. Slices of different parts are equal or disjoint. By default the rows of the channels
  /// that it produces, with all their inputs.
  virtual ParameterSlice parameter_slice(std::size_t parameter, const LayerBoxes& boxes,
                                         std::span<const Shape> src) const {
    const Box& dst = boxes.dst_produced;
    if (dst.empty()) return {};
    return {{dst.lo[kC], dst.hi[kC]}, Box::whole(parameters(src)[parameter].in)};
  }
};

/// The geometry of one layer of a network. Tensor 0 is the network's input; the output of
/// layer i is tensor i + 1, so `inputs` may only name tensors <= i.
struct GraphNode {
  std::string name;
  const LayerGeometry* layer = nullptr;  ///< not owned
  std::vector<std::size_t> inputs;
};

/// The boxes of a layer on a part that owns `dst_owned` of its output and has the blocks
/// `src_local` of its inputs.
LayerBoxes boxes_of(const LayerGeometry& layer, std::span<const Shape> src,
                    std::vector<Box> src_local, const Box& dst_owned);

/// The box of input `input` that a part with these boxes must hold to compute `dst`, a block of its
/// output. For partial sums that is its whole share.
Box needed_by(const LayerGeometry& layer, const LayerBoxes& boxes, std::span<const Shape> src,
              const Box& dst, std::size_t input);

}  // namespace halomesh
