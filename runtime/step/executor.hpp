// SPDX-License-Identifier: Apache-2.0
// Runs a network on one rank of a group: forward and backward, overlapped with the exchanges
// between parts. Must not depend on kinds of layers, losses or files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "partition/overlap.hpp"
#include "partition/step_memory.hpp"
#include "runtime/step/exchange.hpp"
#include "runtime/step/gradient_reducer.hpp"
#include "src/nn/model.hpp"
#include "src/nn/parameters.hpp"
#include "trace.hpp"

namespace halomesh {

/// All tensors, exchanges and prepared layers of one rank. All memory is allocated in the
/// constructor: one block that tensors reuse in turn (partition/step_memory), and one for temporary
/// buffers of layers (Scratch).
class Executor {
 public:
  /// Collective over `group` (rank in the group = part of the geometry), which it duplicates; the
  /// destructor is collective too, unless an exception unwinds. Prepares the layers of `model`,
  /// which no other executor may then use. All other arguments must outlive this object. With
  /// `training` false only forward() may be called, and memory is allocated only for that. Results
  /// do not depend on `use`, which is the same on all ranks; recomputed outputs exchange their
  /// halos again.
  Executor(const Comm& group, Model& model, const ModelGeometry& geometry, Parameters& parameters,
           std::int64_t batch, bool training, Trace* trace = nullptr,
           MemoryUse use = MemoryUse::kShared);

  /// The memory of all tensors. Its content is not kept between steps.
  std::span<std::byte> memory() { return arena_->span(); }

  /// When the rounds of an output's halos are sent: each as soon as its chunks are computed, or all
  /// after the whole layer. Results are equal; kWithLayer is for comparison. Local; not between
  /// forward() and backward().
  enum class Sending : std::uint8_t { kWithChunks, kWithLayer };
  void set_sending(Sending sending) { sending_ = sending; }

  /// The box of the input that this part needs: its own, and the halo of the first layers.
  const Box& input_span() const;

  /// Makes the layers load the values of their parameters: call it before the first forward() and
  /// whenever the values have changed. Local.
  void load_parameters();

  /// Computes the network's output from `input`: `batch` samples of input_span() in the model's
  /// input type, which must stay unchanged until backward() is done. Communicates with the group.
  void forward(const Pass& pass, AnyConstView input);

  /// The output; empty on parts that own none of it.
  ConstView output() const;
  /// The number of parts that own some of the output.
  std::int64_t output_owners() const;
  /// The shape of the whole output, of all parts.
  const Shape& output_shape() const;
  /// Write d(loss)/d(output) here before backward(); same span as output() where that is not empty.
  View output_diff();

  /// Makes backward() skip the work that serves only the parameters of layers before number
  /// `first`. Local; not between forward() and backward().
  void train_from(std::size_t first);

  /// Computes the gradients of all parameters into Parameters::diffs() and hands each layer's, when
  /// complete, to `reducer`. Follows a forward() with the same arguments.
  void backward(const Pass& pass, AnyConstView input, GradientReducer& reducer);

  /// Runs every exchange of a step once, one after the other, without any compute. Overwrites
  /// values and gradients with meaningless data. Communicates with the group.
  void exchange_all();

  /// Lets the exchanges that overlap with the current layer make progress. Pass::poll calls it,
  /// also after each chunk and layer.
  void progress();

  /// Bytes and messages that this rank has exchanged so far, in training and in evaluations.
  HaloCounts halo_counts() const;
  /// Bytes that this rank has received so far in the exchanges whose wait phase is `phase`.
  std::int64_t received_bytes(Phase phase) const;
  /// Lines such as "conv1: forward jit:..., ...", one for every layer that uses library kernels.
  std::vector<std::string> implementations() const;

 private:
  struct EdgeTensor {
    AnyView value, diff;
    AnyView again, now;       // the recomputed values; and the current ones
    bool clear_diff = false;  // the first diff does not fill the tensor, which must start at 0
    std::vector<std::unique_ptr<Exchange>> distribute;  // forward, in the order of chunks
    std::vector<std::size_t> chunks_before_sends;       // by round
    std::unique_ptr<Exchange> distribute_again;
    std::unique_ptr<Exchange> sum_partials;                 // during forward
    std::unique_ptr<Exchange> return_halo, broadcast_diff;  // during backward
    std::unique_ptr<Exchange> gather_diff, gather_state;    // for a layer with whole gradients
  };
  struct LayerState {
    bool active = false;  // this part computes something in this layer
    std::vector<Chunk> chunks;
    std::vector<AnyConstView> src;  // the input view is set at each forward
  };
  void make_arena();
  void make_tensors(std::int64_t batch);
  std::unique_ptr<Exchange> make_exchange(std::size_t tensor, const TransferPlan& plan,
                                          Combine combine, AnyView view, Phase pack, Phase wait);
  void make_layers(Parameters& parameters, std::int64_t batch, bool training);
  void compute(const Pass& pass, std::size_t layer, const Chunk& chunk, AnyView dst);
  void set_input(AnyConstView input);
  void move_values(std::size_t tensor, AnyView values);
  void await_inputs(const std::vector<std::size_t>& inputs, std::size_t rounds);
  void clear_sums(std::size_t tensor);
  void publish(std::size_t tensor);
  void start_rounds(std::size_t tensor, std::size_t computed);
  void backward_layer(const Pass& pass, std::size_t layer, std::span<const StepEvent> events);
  void backward_data(const Pass& pass, const StepEvent& event);
  void compute_again(const Pass& pass, const StepEvent& event);
  void backward_parameters(const Pass& pass, std::size_t layer);
  void settle_diff(std::size_t tensor);
  template <class Visit>
  void for_each_exchange(Visit visit) const;

  Comm comm_;  // used by this executor alone: messages of another one cannot match
  Model& model_;
  const ModelGeometry& geometry_;
  std::size_t part_;
  Trace* trace_;
  StepMemory memory_;
  InFlight<AlignedBuffer<std::byte>> arena_;  // before the exchanges, which send from it
  bool loaded_ = false;                       // whether the layers have loaded their parameters
  std::vector<bool> wanted_;                  // by tensor: whether backward() computes its gradient
  std::size_t first_trained_ = 0;
  Sending sending_ = Sending::kWithChunks;
  int next_tag_ = 0;
  std::size_t layer_ = 0;  // the layer whose exchanges progress() advances
  std::vector<InFlight<EdgeTensor>> tensors_;
  std::vector<LayerState> states_;
};

}  // namespace halomesh
