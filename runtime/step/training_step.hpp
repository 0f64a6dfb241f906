// SPDX-License-Identifier: Apache-2.0
// One step of training on one rank: forward, loss, backward, reduction, optimizer.
// Must not depend on epochs, files or reasons to stop.
#pragma once

#include <cstdint>

#include "runtime/load/loader.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/executor.hpp"
#include "runtime/step/gradient_reducer.hpp"
#include "src/nn/optimizer.hpp"

namespace halomesh {

/// The inputs of a step besides parameters and samples.
struct StepSettings {
  std::uint64_t seed = 0;  ///< of dropout
  std::int64_t number = 0;
  SgdOptions sgd;
  float rate = 0;  ///< learning rate
};

/// A network and everything that its steps need. Steps after the first allocate no memory.
class TrainingStep {
 public:
  /// Collective over mesh.world(). All arguments must outlive this object.
  TrainingStep(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
               Parameters& parameters, std::int64_t local_batch, Trace* trace,
               Reduction reduction = Reduction::kAuto);

  /// Trains on the loader's next batch. Returns this rank's share of the loss, the mean squared
  /// error over the global batch: the sum over all ranks is the loss. Communicates with the group
  /// and with the holders of the same parameters.
  double run(Loader& loader, const StepSettings& settings);

  /// What this rank has moved since construction, in evaluations too; without its input.
  StepCounts counts() const { return {executor_.halo_counts(), reducer_.counts(), {}, 0}; }

  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }
  GradientReducer& reducer() { return reducer_; }
  const GradientReducer& reducer() const { return reducer_; }

 private:
  const ProcessMesh& mesh_;
  Parameters& parameters_;
  std::int64_t local_batch_;
  Trace* trace_;
  Executor executor_;
  GradientReducer reducer_;
};

}  // namespace halomesh
