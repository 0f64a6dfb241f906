// SPDX-License-Identifier: Apache-2.0
// The memory of a training step on one part: the order of the layers' passes, the events between
// which each tensor and gradient is needed, and its place in one arena. Pure arithmetic: must not
// depend on what layers compute.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/arena.hpp"

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
  std::optional<InPlace> in_place{};
};

/// One tensor as this part holds it.
struct TensorMemory {
  std::int64_t bytes = 0;    ///< size of its values, and of its gradient
  bool diff_wanted = false;  ///< backward computes its gradient
};

/// The use of memory by the tensors of a step.
enum class MemoryUse : std::uint8_t {
  kApart,      ///< each has its own, for comparison
  kShared,     ///< memory is reused when the last reader of a tensor is done
  kRecomputed  ///< also, outputs of cheap layers are not kept for backward, but computed again
};

struct StepGraph {
  std::vector<TensorMemory> tensors;
  std::vector<LayerPasses> layers;
  bool training = true;  ///< false: forward only
  MemoryUse use = MemoryUse::kShared;
};

/// One call of a pass of a layer, or the loss between forward and backward.
struct StepEvent {
  enum class Kind : std::uint8_t { kForward, kLoss, kBackwardData, kBackwardParameters, kAgain };
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
  std::size_t during = 0;  ///< the layer whose passes it belongs to; for kAgain a later one
  friend bool operator==(const StepEvent&, const StepEvent&) = default;
};

/// Memory that the tensors of a step share, from the start of an arena. The exchanges of a tensor's
/// values end after its first consumer has computed, and those of its gradient after its producer
/// has: in between both hold something.
struct StepMemory {
  std::vector<StepEvent> events;          ///< in the order in which they happen
  std::vector<std::int64_t> value, diff;  ///< by tensor: its place; -1 where there is none
  std::vector<std::int64_t> again;  ///< by tensor: the place of values that are computed again
  std::int64_t bytes = 0;           ///< size of the arena
  /// The blocks that were placed, with their ranges of events; a gradient in the place of another
  /// has no block.
  std::vector<LiveBlock> blocks;
  std::vector<std::int64_t> offsets;  ///< by block
};

/// The passes of a step in order: forward by layer; the loss; backward from the last layer to the
/// first, without layers whose output's gradient is not wanted, and with each repeated forward pass
/// before the pass that reads its output.
std::vector<StepEvent> step_events(const StepGraph& graph);

/// Places all tensors but the network's input. The output keeps its values to the end.
StepMemory plan_step_memory(const StepGraph& graph);

}  // namespace halomesh
