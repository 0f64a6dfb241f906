// SPDX-License-Identifier: Apache-2.0
// The interface of a layer on one part: geometry (inherited), forward, and backward with respect to
// data and to parameters. Must not depend on ranks or on exchanges.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "error.hpp"
#include "partition/layer_geometry.hpp"
#include "src/nn/counts.hpp"
#include "src/nn/exact_sum.hpp"
#include "src/nn/scratch.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// One step as seen by a layer: the values on which its random numbers may depend, and the
/// functions that it calls during the step.
struct Pass {
  bool training = false;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  ///< position in the global batch of the first local sample
  /// Lets messages make progress during the computation; may be null. Does not affect results.
  const std::function<void()>* poll = nullptr;
  std::int64_t global_batch = 1;  ///< samples of the step over all replicas
  /// Replaces numbers by their sums over the replicas whose samples the network takes together with
  /// this one's, for the part with this number, with equal bits on each; collective over them. Null
  /// if there are no such replicas.
  const std::function<void(std::span<double>)>* sum_replicas = nullptr;

  /// Called between pieces of work of at most a few milliseconds, by the thread that called the
  /// layer.
  void progress() const {
    if (poll != nullptr) (*poll)();
  }
};

/// The boxes and types of a layer on this part: fixed before step 0. Boxes are in global
/// coordinates.
struct LayerContext {
  std::uint32_t index = 0;          ///< position of the layer in its network
  std::vector<Shape> src_shapes;    ///< global, one per input
  Shape dst_shape;                  ///< global
  LayerBoxes boxes;                 ///< the boxes of this part
  std::vector<Box> src_spans;       ///< boxes that the src views span; each contains src_needed
  Box dst_span;                     ///< box that the dst view spans; contains produced and owned
  std::vector<Box> dst_chunks;      ///< boxes that forward() is called with; cover dst_produced
  std::vector<DataType> src_types;  ///< one per input; a diff has the type of its tensor
  DataType dst_type = DataType::kFloat32;
  std::int64_t batch = 1;             ///< samples of every view
  bool training = true;               ///< false: backward is never called
  std::vector<bool> src_diff_wanted;  ///< per input: whether backward_data() is called for it
  /// The scales of kInt16 inputs, one per channel; when empty, counts stand for log(1+x).
  std::vector<ChannelScale> count_scales{};
  /// Memory that the layer may use during each of its calls; the layers share it.
  Scratch scratch{};
};

/// The values of the forward pass, for backward_data(). Values that the layer does not declare to
/// read may be overwritten by then, and diff_src may share their memory.
struct ForwardValues {
  std::span<const AnyConstView> src;  ///< one per input; hold values if backward_reads_src()
  AnyConstView dst;                   ///< holds values if backward_reads_dst()
};

/// A parameter of a layer on this part. `values` and `diffs` are slices of the model's flat
/// memory, owned by it, of slice.volume() elements each; order: outputs, then their inputs in
/// c,d,h,w order (d,h,w,c where geometry.channels_last). Empty spans when this part holds no slice.
struct ParameterView {
  ParameterGeometry geometry;
  ParameterSlice slice;
  std::span<float> values, diffs;
  /// Bound where gradients are summed exactly, with one sum per element: backward_parameters() of a
  /// layer that sums_exactly() adds to them and leaves `diffs` alone.
  ExactView exact{};
};

/// The units of work of one loop, and those of the busiest thread relative to the mean: the loop
/// takes `busiest` times as long as if all threads had the same work.
struct ThreadShare {
  std::string loop;
  std::int64_t units = 0;
  double busiest = 1;
};

/// A layer. All calls are local to the rank; views have the spans and batch of the LayerContext.
/// Between prepare() and destruction no call allocates memory.
class Layer : public LayerGeometry {
 public:
  /// The element type of the output for inputs of these types. By default inputs and output are
  /// fp32; throws Error naming a type that the layer does not support.
  virtual DataType dst_type(std::span<const DataType> src) const {
    for (const DataType type : src)
      require(type == DataType::kFloat32, text("a layer of fp32 given {}", name_of(type)),
              "let the layer before it write fp32");
    return DataType::kFloat32;
  }

  /// Creates primitives and buffers. Called once, and never on a part that produces nothing; throws
  /// Error naming what is not supported.
  virtual void prepare(const LayerContext& context, std::vector<ParameterView> parameters) = 0;

  /// Packs changed parameter values; called before the first forward() that uses them.
  virtual void load_parameters() {}

  /// Computes the box `chunk` of dst (one of dst_chunks) from src; all samples. Backward passes
  /// follow only when pass.training.
  virtual void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                       const Box& chunk) = 0;

  /// Writes (never adds) d(loss)/d(src number `input`) on src_needed of that input, from diff_dst
  /// on dst_produced and the values of the forward pass that the layer declares to read.
  virtual void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                             std::size_t input, AnyView diff_src) = 0;

  /// Whether backward_data() needs the values that forward() wrote.
  virtual bool backward_reads_dst() const { return false; }
  /// Whether backward_data() needs the values that forward() read: their memory is then not reused
  /// for the gradient.
  virtual bool backward_reads_src() const { return false; }

  /// Whether diff_src of input `input` may be the memory of diff_dst: each of its elements is
  /// written after the element at the same place was read, and depends on no other.
  virtual bool backward_in_place(std::size_t input) const {
    (void)input;
    return false;
  }
  /// Whether add_backward_data() can be called, which adds where backward_data() writes.
  virtual bool backward_adds() const { return false; }
  virtual void add_backward_data(const Pass& pass, const ForwardValues& values,
                                 AnyConstView diff_dst, std::size_t input, AnyView diff_src) {
    (void)pass, (void)values, (void)diff_dst, (void)input, (void)diff_src;
    throw Error("a layer that cannot add gradients was asked to");
  }

  /// Writes d(loss)/d(parameters), summed over the local samples and this part's dst_produced, into
  /// the bound `diffs`. Layers without parameters do nothing.
  virtual void backward_parameters(const Pass& pass, std::span<const AnyConstView> src,
                                   AnyConstView diff_dst) {
    (void)pass, (void)src, (void)diff_dst;
  }

  /// The number of consecutive samples of the global batch that are taken together in training, as
  /// their results depend on one another; the first of them is a multiple of this number.
  virtual std::int64_t samples_together() const { return 1; }

  /// Whether forward() may be called again with equal inputs before the layer's backward passes and
  /// then writes the same bits, so that its output need not be kept until they read it.
  virtual bool repeats_forward() const { return false; }

  /// Whether the layer's results have the same bits for every cut, batch and number of threads. Its
  /// parameter gradients are then terms of ParameterView::exact that do not depend on these either.
  virtual bool sums_exactly() const { return false; }

  /// The state that forward() keeps of each element of dst for backward_data(), with the span of
  /// dst. If the layer has whole gradients, other parts copy the state as they do the output's
  /// gradient. Without data where there is no state.
  virtual AnyView backward_state() { return {}; }

  /// The library kernels chosen, e.g. "forward jit:avx512_core"; empty if the layer uses none.
  virtual std::vector<std::string> implementations() const { return {}; }

  /// The layer's computation apart from extents, channels and samples, e.g. "block 2x2x2 same pool
  /// 2x2x2 fp32": two layers of one name with equal boxes take equal time. Empty for a layer that
  /// costs nothing measurable.
  virtual std::string kernel_name() const { return {}; }

  /// How evenly `threads` threads share the loops of the layer's own kernels on a part that
  /// produces `dst`; empty if it has no such kernels.
  virtual std::vector<ThreadShare> thread_shares(std::span<const Shape> src, const Box& dst,
                                                 int threads) const {
    (void)src, (void)dst, (void)threads;
    return {};
  }

  /// Multiply-adds x 2 of one sample's forward pass over the whole dst (for roofline figures).
  virtual std::int64_t forward_flops(std::span<const Shape> src) const {
    (void)src;
    return 0;
  }
};

}  // namespace halomesh
