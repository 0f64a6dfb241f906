// SPDX-License-Identifier: Apache-2.0
// The memory of a training step on one part: in which order the passes of the layers follow each
// other, when each tensor and gradient holds something that is still read, and where in one arena
// each lies. Pure arithmetic: must not depend on what layers compute.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/arena.hpp"

namespace halomesh {

/// What the passes of one layer read besides what they must: forward its inputs, backward_data()
/// and backward_parameters() the gradient of its output.
struct LayerPasses {
  /// The gradient of `input` may lie in the memory of the output's, so many bytes behind its begin.
  struct InPlace {
    std::size_t input = 0;
    std::int64_t offset = 0;
  };
  std::vector<std::size_t> inputs;  ///< tensors: 0 is the network's input, i + 1 layer i's output
  bool has_parameters = false;      ///< backward_parameters() reads the inputs
  bool reads_src = false, reads_dst = false;  ///< backward_data() does
  bool parameters_first = false;              ///< backward_parameters() before backward_data()
  bool adds = false;                          ///< add_backward_data() can be called
  /// forward() is called again where the output is read long after the passes that read it before:
  /// it is not kept in between.
  bool repeats = false;
  bool repeats_by_input = false;  ///< with a call for each input, which reads no other
  std::optional<InPlace> in_place{};
};

/// One tensor as this part holds it.
struct TensorMemory {
  std::int64_t bytes = 0;    ///< of its values, and as many of its gradient
  bool diff_wanted = false;  ///< backward computes its gradient
};

/// How the tensors of a step use memory.
enum class MemoryUse : std::uint8_t {
  kApart,      ///< each has its own, for comparison
  kShared,     ///< it is used again when the last reader of a tensor is done
  kRecomputed  ///< and outputs of cheap layers are not kept for backward, but computed again
};

struct StepGraph {
  std::vector<TensorMemory> tensors;
  std::vector<LayerPasses> layers;
  bool training = true;  ///< false: forward only
  MemoryUse use = MemoryUse::kShared;
};

/// One call of a pass of a layer, or what happens between forward and backward.
struct StepEvent {
  enum class Kind : std::uint8_t { kForward, kLoss, kBackwardData, kBackwardParameters, kAgain };
  Kind kind = Kind::kForward;
  std::size_t layer = 0;
  std::size_t input = 0;  ///< of kBackwardData, and of kAgain by input
  /// Of the gradients that make up that of the input; of the calls that make up the output again.
  bool first = false, last = false;
  bool in_place = false;  ///< it is written over that of the output
  /// Where a gradient lies that is then added to those before it; -1: it is written or added to
  /// the input's own.
  std::int64_t extra = -1;
  std::size_t during = 0;  ///< the layer whose passes it belongs to: of kAgain a later one
  friend bool operator==(const StepEvent&, const StepEvent&) = default;
};

/// Memory that the tensors of a step share, from the begin of an arena. The exchanges of a tensor's
/// values are over when its first consumer has computed, those of its gradient when its producer
/// has: in between both hold something.
struct StepMemory {
  std::vector<StepEvent> events;          ///< in the order in which they happen
  std::vector<std::int64_t> value, diff;  ///< by tensor: where; -1 where there is none
  std::vector<std::int64_t> again;        ///< where its values are when they are computed again
  std::int64_t bytes = 0;                 ///< of the arena
  /// The blocks that were placed, with their ranges of events; a gradient in the place of another
  /// has none.
  std::vector<LiveBlock> blocks;
  std::vector<std::int64_t> offsets;  ///< by block
};

/// The passes of a step in order: forward by layer; the loss; backward from the last layer to the
/// first, without layers whose output's gradient is not wanted, and with the forward passes that
/// are repeated before what reads their outputs.
std::vector<StepEvent> step_events(const StepGraph& graph);

/// Places all tensors but the network's input. The output holds its values to the end.
StepMemory plan_step_memory(const StepGraph& graph);

}  // namespace halomesh
