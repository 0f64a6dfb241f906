// SPDX-License-Identifier: Apache-2.0
// Runs a network on one rank of a group: forward and backward, overlapped with the exchanges
// between parts. Must not depend on kinds of layers, losses or files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "partition/step_memory.hpp"
#include "runtime/step/exchange.hpp"
#include "runtime/step/gradient_reducer.hpp"
#include "src/nn/model_on_part.hpp"
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

  /// Sends the rounds of an output's halo after the whole layer from now on, not each as soon as
  /// its chunks are computed, for comparison. Results are equal. Local; before the first step.
  void send_with_layers();

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

  /// Runs every exchange of a step once, in the step's order, without any compute. Overwrites
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
    AnyView again, now;  // the recomputed values; and the current ones
  };
  void make_arena();
  void make_tensors(std::int64_t batch);
  void make_layers(Parameters& parameters, std::int64_t batch, bool training);
  void make_exchanges(const HaloRounds& rounds);
  AnyView view_of(const StepExchange& exchange);
  bool is_active(std::size_t layer) const { return !graph_.layers[layer].chunks.empty(); }
  void set_input(AnyConstView input);
  void move_values(std::size_t tensor, AnyView values);
  void run(const Pass& pass, const StepEvent& event, GradientReducer* reducer);
  void compute(const Pass& pass, std::size_t layer, const Box& chunk, AnyView dst);
  void compute_again(const Pass& pass, const StepEvent& event);
  void backward_data(const Pass& pass, const StepEvent& event);
  void backward_parameters(const Pass& pass, std::size_t layer);

  Comm comm_;  // used by this executor alone: messages of another one cannot match
  Model& model_;
  const ModelGeometry& geometry_;
  std::size_t part_;
  Trace* trace_;
  StepGraph graph_;
  StepMemory memory_;
  InFlight<AlignedBuffer<std::byte>> arena_;  // before the exchanges, which send from it
  bool loaded_ = false;                       // whether the layers have loaded their parameters
  std::vector<StepEvent> events_;             // the events that serve trained layers
  std::size_t loss_ = 0;                      // the event between forward and backward
  std::size_t layer_ = 0;                     // the layer whose exchanges progress() advances
  std::vector<EdgeTensor> tensors_;
  std::vector<std::vector<AnyConstView>> src_;  // by layer; the input is set at each forward
  std::vector<InFlight<Exchange>> exchanges_;   // the exchanges of the program
  std::vector<std::vector<std::size_t>>
      nearby_;  // by layer: exchanges that overlap with its passes
};

}  // namespace halomesh
