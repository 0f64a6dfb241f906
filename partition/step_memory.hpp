// SPDX-License-Identifier: Apache-2.0
// The memory of a training step on one part: the events between which each tensor and gradient is
// needed, and its place in one arena. Pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/arena.hpp"
#include "partition/step_program.hpp"

namespace halomesh {

/// Memory that the tensors of a step share, from the start of an arena. The exchanges of a tensor's
/// values end after its first consumer has computed, and those of its gradient after its producer
/// has: in between both hold something.
struct StepMemory {
  StepProgram program;                    ///< with the places of gradients that are added
  std::vector<std::int64_t> value, diff;  ///< by tensor: its place; -1 where there is none
  std::vector<std::int64_t> again;  ///< by tensor: the place of values that are computed again
  std::int64_t bytes = 0;           ///< size of the arena
  /// The blocks that were placed, with their ranges of events; a gradient in the place of another
  /// has no block.
  std::vector<LiveBlock> blocks;
  std::vector<std::int64_t> offsets;  ///< by block
};

/// Places all tensors of a step_program() but the network's input. The output keeps its values to
/// the end.
StepMemory plan_step_memory(const StepGraph& graph);

}  // namespace halomesh
