// SPDX-License-Identifier: Apache-2.0
// What a layer must declare about its geometry; everything that moves data is derived from it. Pure
// geometry: must not depend on a layer's data or mathematics.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "box.hpp"
#include "partition/parameter_slice.hpp"

namespace halomesh {

/// What a parameter is before training: from its fans, a number, or both.
struct InitialValues {
  enum class Kind : std::uint8_t {
    /// U(-a, a), a = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio, AISTATS 2010, equation 16);
    /// zero where both fans are 0.
    kGlorotUniform,
    /// N(0, 2 / fan_in) (He, Zhang, Ren & Sun, ICCV 2015, equation 10): for ReLUs.
    kHeNormal,
    /// U(-a, a), a = 1 / sqrt(fan_in): what PyTorch gives convolutions and dense layers, biases
    /// too, by default.
    kFanInUniform,
    kConstant
  };
  Kind kind = Kind::kGlorotUniform;
  float constant = 0;  ///< of kConstant
};

/// The logical extents of one parameter: `out` outputs, each with a block of `in` inputs.
/// Convolution weight: in = {ci, kd, kh, kw}; dense weight: in = the shape of its input; bias:
/// in = {1, 1, 1, 1}.
struct ParameterGeometry {
  std::string name;                      ///< "weight" or "bias"
  std::int64_t out = 0;                  ///< output channels
  Shape in;                              ///< inputs of one output channel
  bool channels_last = false;            ///< flattened order of `in`: d,h,w,c (dense) or c,d,h,w
  std::int64_t fan_in = 0, fan_out = 0;  ///< numbers of inputs and outputs that `initial` weighs
  InitialValues initial{};
  /// 0: trained by its gradient. Otherwise a moving average of what backward_parameters() writes:
  /// each step moves it there by this share of the way.
  float moving_average = 0;

  std::int64_t volume() const { return out * in.volume(); }
  ParameterSlice whole() const { return {{0, out}, Box::whole(in)}; }
};

/// The boxes of one layer on one part, in global coordinates of the tensors they belong to.
struct LayerBoxes {
  std::vector<Box> src_needed;  ///< one per input
  Box dst_produced;             ///< what this part computes (partial sums when split over input)
  Box dst_owned;                ///< what this part holds for its consumers
  /// One per input: what is available before any message: the part's own block, or, for the
  /// network's input, which comes with its halo, all that is needed.
  std::vector<Box> src_local{};
  /// Of a layer with whole gradients: the block of the input whose gradient this part computes, and
  /// what it must have of the output's gradient for that; empty where nobody wants it.
  Box diff_src{}, diff_dst_needed{};
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

  /// Of such a layer: the output box to which a part with these blocks of the inputs, one per input
  /// and not all empty, adds something; by default the whole output.
  virtual Box contributes(std::span<const Box> src_local, std::span<const Shape> src) const {
    (void)src_local;
    return Box::whole(dst_shape(src));
  }

  /// True when a part may compute only a block of the output's channels, with the rows of the
  /// parameters that belong to them. choose_cuts() decides whether it does.
  virtual bool splits_over_channels() const { return false; }

  /// True when the gradients have the same bits on every grid of parts. Each element of the input's
  /// gradient is computed whole, by one part, from the output's gradient around it, instead of
  /// being added up from what several parts contribute; and the parameters' gradients are sums over
  /// the gradient_cells() of the output, which are added exactly. Such a layer has one input, which
  /// only it reads, and is cut in blocks of whole cells.
  virtual bool has_whole_gradients() const { return false; }
  /// Into how many cells of one size the output is divided along each axis; of such a layer.
  virtual Spatial gradient_cells(std::span<const Shape> src) const {
    (void)src;
    return {1, 1, 1};
  }
  /// The block of the input whose gradient is computed by the part that owns the block `dst` of the
  /// output: over all blocks, disjoint ones that cover the input. Throws Error where they do not.
  virtual Box gradient_box(const Box& dst, std::span<const Shape> src) const {
    (void)dst, (void)src;
    return {};
  }
  /// The box of the output's gradient on which that of the block `diff_src` of the input depends.
  virtual Box gradient_needs(const Box& diff_src, std::span<const Shape> src) const {
    (void)diff_src, (void)src;
    return {};
  }

  /// The parameters, in the order weight, bias, moving averages.
  virtual std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const {
    (void)src;
    return {};
  }

  /// What a part with these boxes uses of parameter number `parameter`; empty when it uses none.
  /// Slices of different parts are equal or disjoint. By default the rows of the channels that it
  /// produces, with all their inputs.
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

/// What a part with these boxes must hold of input `input` to compute `dst`, a block of what it
/// produces. For partial sums that is all of its share.
Box needed_by(const LayerGeometry& layer, const LayerBoxes& boxes, std::span<const Shape> src,
              const Box& dst, std::size_t input);

}  // namespace halomesh
