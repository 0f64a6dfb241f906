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

/// One step as seen by a layer: what its random numbers may depend on, and what to call during it.
struct Pass {
  bool training = false;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  ///< position in the global batch of the first local sample
  /// Lets messages make progress during the computation; may be null. Does not affect results.
  const std::function<void()>* poll = nullptr;
  std::int64_t global_batch = 1;  ///< samples of the step, of all replicas
  /// Replaces numbers by their sums over the replicas whose samples the network takes together with
  /// this one's, on the same part, the same bits on each; collective over them. Null where there
  /// are none.
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
  LayerBoxes boxes;                 ///< of this part
  std::vector<Box> src_spans;       ///< what the src views span; each contains src_needed
  Box dst_span;                     ///< what the dst view spans; contains produced and owned
  std::vector<Box> dst_chunks;      ///< boxes that forward() is called with; cover dst_produced
  std::vector<DataType> src_types;  ///< one per input; a diff has the type of its tensor
  DataType dst_type = DataType::kFloat32;
  std::int64_t batch = 1;             ///< samples of every view
  bool training = true;               ///< false: backward is never called
  std::vector<bool> src_diff_wanted;  ///< per input: whether backward_data() is called for it
  /// What inputs of kInt16 stand for, one per channel; when empty: log(1+x).
  std::vector<ChannelScale> count_scales{};
  /// What the layer may use during each of its calls, as the other layers do in theirs.
  Scratch scratch{};
};

/// The values of the forward pass, for backward_data(). Memory of those that the layer does not say
/// it reads may hold anything by then, and diff_src may share it.
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
  /// Bound where gradients are summed exactly, with as many sums: backward_parameters() of a layer
  /// that sums_exactly() adds to them and leaves `diffs` alone.
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
  /// on dst_produced and what the layer says that it reads of the forward pass.
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
  /// Whether add_backward_data() can be called: as backward_data(), but adds.
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

  /// So many consecutive samples of the global batch, the first of which is a multiple of that, are
  /// taken together in training: their results depend on one another.
  virtual std::int64_t samples_together() const { return 1; }

  /// Whether forward() may be called again before the layer's backward passes, with the same
  /// inputs, and then writes the same bits: its output need not be kept until they are read.
  virtual bool repeats_forward() const { return false; }

  /// Whether what the layer computes has the same bits for every cut, batch and number of threads,
  /// with gradients of parameters as terms of ParameterView::exact that depend on neither.
  virtual bool sums_exactly() const { return false; }

  /// What forward() keeps of each element of dst for backward_data(), spanning what dst spans; of a
  /// layer with whole gradients other parts copy it as they do the output's gradient. Without data
  /// where there is nothing.
  virtual AnyView backward_state() { return {}; }

  /// The library kernels chosen, e.g. "forward jit:avx512_core"; empty if the layer uses none.
  virtual std::vector<std::string> implementations() const { return {}; }

  /// What the layer computes apart from extents, channels and samples, e.g. "block 2x2x2 same pool
  /// 2x2x2 fp32": two layers of one name and the same boxes take the same time. Empty for a layer
  /// that costs nothing measurable.
  virtual std::string kernel_name() const { return {}; }

  /// How evenly `threads` threads share the loops of the layer's own kernels on a part that
  /// produces `dst`; empty where it has none.
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
