// SPDX-License-Identifier: Apache-2.0
// One training step of one part as a list of events: passes of layers, and exchanges between parts
// where they begin and end. The executor runs the list, the forecast times it, and the plan of
// memory is summed over it. Pure: must not depend on what layers compute.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/overlap.hpp"

namespace halomesh {

/// The tensors that the passes of one layer read besides those that they always do: forward its
/// inputs, backward_data() and backward_parameters() the gradient of its output.
struct LayerPasses {
  /// The gradient of `input` may lie in the memory of the output's gradient, so many bytes behind
  /// its begin.
  struct InPlace {
    std::size_t input = 0;
    std::int64_t offset = 0;
  };
  std::vector<std::size_t> inputs;  ///< tensors: 0 is the network's input, i + 1 layer i's output
  bool has_parameters = false;      ///< backward_parameters() reads the inputs
  bool reads_src = false, reads_dst = false;  ///< backward_data() reads the inputs, the output
  bool parameters_first = false;              ///< backward_parameters() before backward_data()
  bool adds = false;                          ///< add_backward_data() can be called
  /// forward() is called again where the output is read long after its previous readers; in between
  /// it is not kept.
  bool repeats = false;
  bool repeats_by_input = false;  ///< with a call for each input, which reads no other
  bool sums_replicas = false;     ///< its passes in training wait for sums over replicas
  std::optional<InPlace> in_place{};
  std::vector<Chunk> chunks{};  ///< in the order in which they are computed; none: an idle part
};

/// One tensor as this part holds it.
struct StepTensor {
  std::int64_t bytes = 0;    ///< size of its values, and of its gradient
  bool diff_wanted = false;  ///< backward computes its gradient
  bool clears_sums = false;  ///< other parts add to elements that this part does not produce
  bool clears_diff = false;  ///< the gradient's first term does not fill the tensor
  /// By round of its halo: the chunks of its producer after which the round is sent; kAfterLayer:
  /// after its last pass.
  std::vector<std::size_t> chunks_before_sends{};
};
constexpr std::size_t kAfterLayer = static_cast<std::size_t>(-1);

/// One exchange of a tensor between parts. The parts of a network list them in one order.
struct StepExchange {
  enum class Kind : std::uint8_t {
    kHalo,           ///< a round of the values that consumers need
    kHaloAgain,      ///< all rounds, after the values have been computed again
    kPartialSums,    ///< values go to the parts that add them up
    kReturnDiff,     ///< the gradient goes from consumers to the parts that own the values
    kBroadcastDiff,  ///< the gradient goes to the parts that made partial sums
    kGatherDiff,     ///< the gradient goes to the parts that compute whole gradients from it
    kGatherState     ///< so does the state that its producer keeps for that
  };
  Kind kind = Kind::kHalo;
  std::size_t tensor = 0;
  std::size_t round = 0;  ///< the round of a kHalo
  friend bool operator==(const StepExchange&, const StepExchange&) = default;
};

/// The use of memory by the tensors of a step.
enum class MemoryUse : std::uint8_t {
  kApart,      ///< each has its own, for comparison
  kShared,     ///< memory is reused when the last reader of a tensor is done
  kRecomputed  ///< also, outputs of cheap layers are not kept for backward, but computed again
};

/// All that the order of a step depends on.
struct StepGraph {
  std::vector<StepTensor> tensors;
  std::vector<LayerPasses> layers;
  bool training = true;  ///< false: forward only
  MemoryUse use = MemoryUse::kShared;
  std::vector<StepExchange> exchanges{};  ///< all that the step may need, by tensor

  /// Sends all rounds of halos after the whole layer, for comparison. Results are equal, and so is
  /// the plan of memory.
  void send_with_layers();
};

struct StepEvent {
  enum class Kind : std::uint8_t {
    kForward,       ///< a pass of a layer over one chunk
    kLoss,          ///< between forward and backward
    kBackwardData,  ///< for one input
    kBackwardParameters,
    kAgain,        ///< forward() again
    kClearSums,    ///< clears the elements of the layer's output that other parts add to
    kClearDiff,    ///< clears the gradient of an output that nobody reads
    kReplicaSums,  ///< the layer's pass here waits for sums over replicas
    kStart,        ///< an exchange begins
    kFinish,       ///< and is waited for
    kCompleted,    ///< backward has done all that the layer's parameters need
    kPoll          ///< whatever is in flight makes progress
  };
  Kind kind = Kind::kForward;
  std::size_t layer = 0;
  std::size_t input = 0;  ///< input of kBackwardData, and of kAgain by input
  /// First or last of the gradients that add up to the input's, or of the calls that compute the
  /// output again.
  bool first = false, last = false;
  bool in_place = false;  ///< the gradient is written over that of the output
  /// The offset of a gradient that is then added to earlier ones; -1: it is written or added to the
  /// input's own.
  std::int64_t extra = -1;
  std::size_t during = 0;    ///< the layer whose passes it belongs to; for kAgain a later one
  std::size_t number = 0;    ///< the chunk of kForward, the exchange of kStart and kFinish
  bool clears_diff = false;  ///< the input's gradient is cleared before
  friend bool operator==(const StepEvent&, const StepEvent&) = default;
};

struct StepProgram {
  std::vector<StepEvent> events;  ///< in the order in which they happen
  std::vector<StepExchange>
      exchanges;  ///< the exchanges of the events, in the order of the graph's
};

/// The step of one part. Forward by layer: each chunk follows the rounds of halos that it needs,
/// and a round leaves as soon as its chunks are computed. Then the loss. Backward from the last
/// layer to the first, without layers whose output's gradient is not wanted, and with each repeated
/// forward pass before the pass that reads its output.
StepProgram step_program(const StepGraph& graph);

/// The events that are left if backward serves only the parameters of layers from number `first`
/// on; `wanted` says which tensors' gradients that needs.
std::vector<StepEvent> events_from(std::size_t first, const std::vector<bool>& wanted,
                                   const StepGraph& graph, const StepProgram& program);

/// Calls visit(t) for each tensor whose values the pass of `event` reads or writes.
template <class Visit>
void for_each_value(const StepGraph& graph, const StepEvent& event, const Visit& visit) {
  using Kind = StepEvent::Kind;
  if (event.kind == Kind::kLoss) return visit(graph.tensors.size() - 1);
  const bool forward = event.kind == Kind::kForward || event.kind == Kind::kAgain;
  const bool data = event.kind == Kind::kBackwardData;
  if (!forward && !data && event.kind != Kind::kBackwardParameters) return;
  const LayerPasses& layer = graph.layers[event.layer];
  if (forward || (data && layer.reads_dst)) visit(event.layer + 1);
  if (data && !layer.reads_src) return;
  for (std::size_t i = 0; i < layer.inputs.size(); ++i)
    if (layer.inputs[i] > 0 &&
        (event.kind != Kind::kAgain || !layer.repeats_by_input || i == event.input))
      visit(layer.inputs[i]);
}

}  // namespace halomesh
