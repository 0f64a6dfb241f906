// SPDX-License-Identifier: Apache-2.0
// Predicts volumes larger than the network's input: windows slide over them, and the outputs of all
// windows at a voxel are averaged by weight. No rank holds a whole volume.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "partition/samples/sliding_windows.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/load/staged_volumes.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/evaluator.hpp"
#include "runtime/step/executor.hpp"

namespace halomesh {

/// The volumes of a data set, and how windows of the executor's input extents cover them.
struct WindowedVolumes {
  const Dataset* data = nullptr;
  StagedVolumes* staged = nullptr;  ///< these volumes from a stage; null: they are read from their
                                    ///< files
  Spatial window{};
  WindowPlacement placement{};
  float padding = 0;                   ///< the value of voxels outside of a volume
  std::int64_t local_batch = 1;        ///< windows at a time per replica
  DataType type = DataType::kFloat32;  ///< the type that the network reads
};

/// Evaluates as evaluate() does, with the output of a volume averaged over windows. All replicas
/// share the windows of each volume. Each rank owns a slab of whole planes of it; the parts of all
/// replicas send their outputs there, and it adds them in the order of the windows, so the result
/// depends on the mesh only as far as the network's own output does. `make_loss` makes a loss for
/// outputs of the shape of a volume's. `sink` gets the averaged output of a slab, on ranks that
/// have one. Collective over mesh.world().
Evaluation evaluate_windows(const ProcessMesh& mesh, Executor& executor,
                            const std::vector<Box>& output_blocks,
                            const std::function<std::unique_ptr<Loss>(const Shape&)>& make_loss,
                            const WindowedVolumes& volumes, const PredictionSink& sink = {},
                            const std::function<bool()>& must_stop = {});

}  // namespace halomesh
