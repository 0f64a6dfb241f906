// SPDX-License-Identifier: Apache-2.0
// What a step on a mesh consists of, whatever the machine: the messages, chunks and kernels of all
// its parts, found once for all forecasts of the mesh.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "partition/cost/kernel_table.hpp"
#include "partition/model_geometry.hpp"
#include "src/apps/forecast/halo_times.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// The messages of one exchange, as Exchange makes them.
struct ExchangeOutline {
  std::vector<HaloMessage> messages;
  std::vector<double> packed, unpacked;  ///< bytes of each; none of what is in place
  std::vector<std::vector<std::size_t>> sent, received;  ///< of messages, by part, ascending
  std::size_t number = 0;                                ///< among the exchanges of the step

  bool empty() const { return messages.empty(); }
};

struct TensorOutline {
  bool gathered = false;  ///< more than halos moves: whole tensors, or partial sums
  /// What consumers need of other parts, in the order in which their chunks need it.
  std::vector<ExchangeOutline> rounds;
  ExchangeOutline returned;                 ///< gradients of that, to their owners
  ExchangeOutline partial_sums, broadcast;  ///< of the output; of its gradient
};

struct LayerOutline {
  struct Chunk {
    double share = 0;  ///< of what the part computes
    bool needs_remote = false;
  };
  std::vector<std::vector<Chunk>> chunks;  ///< by part
  /// By part and round of the output: after how many chunks all that it sends is computed.
  std::vector<std::vector<std::size_t>> chunks_before;
  std::array<std::vector<KernelCase>, 3> kernels;  ///< by pass and part; threads are not set
};

struct StepOutline {
  std::vector<TensorOutline> tensors;
  std::vector<LayerOutline> layers;
  std::size_t exchanges = 0;
};

/// A step of `batch` samples.
StepOutline step_outline(const Model& model, const ModelGeometry& geometry, std::int64_t batch);

}  // namespace halomesh
