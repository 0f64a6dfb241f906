// SPDX-License-Identifier: Apache-2.0
// The parts of a step on a mesh that do not depend on the machine: the messages, chunks and kernels
// of all parts, found once for all forecasts of the mesh.
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
  std::vector<double> packed, unpacked;                  ///< bytes by message; 0 for in-place ones
  std::vector<std::vector<std::size_t>> sent, received;  ///< messages by part, ascending
  std::size_t number = 0;                                ///< the index among the exchanges of the
                                                         ///< step

  bool empty() const { return messages.empty(); }
};

struct TensorOutline {
  bool gathered = false;  ///< whole tensors or partial sums move, not only halos
  /// The data that consumers need from other parts, in the order in which their chunks need them.
  std::vector<ExchangeOutline> rounds;
  ExchangeOutline returned;                 ///< their gradients, back to the owners
  ExchangeOutline partial_sums, broadcast;  ///< for the output; for its gradient
};

struct LayerOutline {
  struct Chunk {
    double share = 0;  ///< the share of the part's computation
    bool needs_remote = false;
  };
  std::vector<std::vector<Chunk>> chunks;  ///< by part
  /// By part and round of the output: the number of chunks after which all data to send are
  /// computed.
  std::vector<std::vector<std::size_t>> chunks_before;
  std::array<std::vector<KernelCase>, 3> kernels;  ///< by pass and part; threads are not set
};

struct StepOutline {
  std::vector<TensorOutline> tensors;
  std::vector<LayerOutline> layers;
  std::size_t exchanges = 0;
};

/// The outline of a step of `batch` samples.
StepOutline step_outline(const Model& model, const ModelGeometry& geometry, std::int64_t batch);

}  // namespace halomesh
