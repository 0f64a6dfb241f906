// SPDX-License-Identifier: Apache-2.0
// Finds the memory of a process that trains a network on one part of a cut, without running it:
// layers are prepared with memory that is only counted, and buffers are those of the classes that a
// step uses. All calls are local; none sends messages.
#pragma once

#include <cstdint>

#include "partition/mesh_shape.hpp"
#include "partition/step_memory.hpp"
#include "src/nn/data_type.hpp"
#include "src/nn/loss.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// How a job trains, besides the network and its cut.
struct MemorySetting {
  MeshShape mesh;
  std::int64_t batch = 1;             ///< samples of a replica in one pass
  std::int64_t optimizer_states = 1;  ///< arrays of the size of the parameters
  MemoryUse use = MemoryUse::kShared;
  DataType payload = DataType::kFloat32;  ///< the type of gradients in messages
  int ranks_per_node = 1;
  int threads = 0;     ///< threads per rank; 0: as many as OpenMP uses here
  bool trains = true;  ///< false: only forward passes
  /// Splits whose loaders hold one batch in use and one being read: training and validation.
  int splits = 2;
};

/// Bytes of one process.
struct PartMemory {
  std::int64_t tensors = 0;     ///< the arena of a step: see step_memory.hpp
  std::int64_t parameters = 0;  ///< values and gradients
  std::int64_t optimizer = 0;   ///< optimizer states
  std::int64_t layers = 0;      ///< kept by layers: packed weights, positions of maxima, tables
  std::int64_t scratch = 0;     ///< temporary buffers of layers, used in turn: see Scratch
  std::int64_t input = 0;       ///< samples and their targets
  std::int64_t exchanges = 0;   ///< buffers of halos and partial sums
  std::int64_t sums = 0;        ///< buffers of gradient sums over ranks
  /// The program, its libraries, MPI, and compiled kernels, as measured: see docs/planning.md.
  std::int64_t program = 65'000'000;

  std::int64_t total() const {
    return tensors + parameters + optimizer + layers + scratch + input + exchanges + sums + program;
  }
};

/// Prepares the layers of `model`, which nothing else may then use. Library kernels are those for
/// this CPU. `loss` gives the size of the targets; null: there are none. Throws Error as
/// Layer::prepare() does.
PartMemory memory_of_part(Model& model, const ModelGeometry& geometry, std::int64_t part,
                          const Loss* loss, const MemorySetting& setting);

/// The part that holds the most bytes of tensors and parameters; on a tie, the first.
std::int64_t largest_part(const Model& model, const ModelGeometry& geometry,
                          const MemorySetting& setting);

}  // namespace halomesh
