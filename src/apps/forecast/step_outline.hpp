// SPDX-License-Identifier: Apache-2.0
// The parts of a step on a mesh that do not depend on the machine: the events, messages and kernels
// of all parts, found once for all forecasts of the mesh.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "partition/model_geometry.hpp"
#include "partition/step_program.hpp"
#include "src/apps/forecast/halo_times.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// The messages of one exchange, as Exchange makes them.
struct ExchangeOutline {
  bool gathered = false;  ///< whole tensors or partial sums move, not only halos
  std::vector<HaloMessage> messages;
  std::vector<double> packed, unpacked;                  ///< bytes by message; 0 for in-place ones
  std::vector<std::vector<std::size_t>> sent, received;  ///< messages by part, ascending
};

/// An event of one part's StepProgram.
struct TimedEvent : StepEvent {
  double share = 0;  ///< a share of the time of the layer's kernel
  double bytes = 0;  ///< the bytes of values that it clears or adds besides
};

struct StepOutline {
  std::vector<ExchangeOutline> exchanges;       ///< as the events number them
  std::vector<std::vector<TimedEvent>> events;  ///< by part: those of training
  /// By layer, pass and part; threads are not set.
  std::vector<std::array<std::vector<KernelCase>, 3>> kernels;
};

/// The outline of a step of `batch` samples. Without `early_sends`, halos leave with their layers.
StepOutline step_outline(const Model& model, const ModelGeometry& geometry, std::int64_t batch,
                         MemoryUse use, bool early_sends);

}  // namespace halomesh
