// SPDX-License-Identifier: Apache-2.0
// One step of training on one rank: forward, loss, backward, reduction, optimizer.
// Must not depend on epochs, files or reasons to stop.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/load/loader.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/executor.hpp"
#include "runtime/step/gradient_reducer.hpp"
#include "runtime/step/part_sums.hpp"
#include "runtime/step/replica_sums.hpp"
#include "src/nn/exact_sum.hpp"
#include "src/nn/loss.hpp"
#include "src/nn/optimizer.hpp"
#include "src/nn/square_sums.hpp"

namespace halomesh {

/// The inputs of a step besides parameters and samples.
struct StepSettings {
  std::uint64_t seed = 0;  ///< for dropout
  std::int64_t number = 0;
  float rate = 0;  ///< learning rate
};

/// How a step computes and changes the gradient of its batch.
struct GradientRules {
  std::int64_t passes = 1;  ///< forward and backward passes per step, each over its own batch
  double clip_norm = 0;     ///< the largest 2-norm of the gradient of all parameters; 0: unlimited
  DataType payload = DataType::kFloat32;  ///< the type of gradients in messages; kBfloat16: see
                                          ///< PointSum
  /// Sums losses and gradients exactly, so that they have the same bits on every mesh. All layers
  /// must be Layer::sums_exactly(), and sums over ranks are MPI's own.
  bool reproducible = false;
  MemoryUse memory = MemoryUse::kShared;  ///< the executor's; does not affect results
};

/// Returns `rules`. Throws unless the loss, the network and the batch (`samples` per pass) meet
/// their needs.
const GradientRules& check_rules(const GradientRules& rules, const Loss& loss, const Model& model,
                                 const ModelGeometry& geometry, std::int64_t samples);

/// A network and everything that its steps need. Steps after the first allocate no memory.
class TrainingStep {
 public:
  /// Collective over mesh.world(). All arguments must outlive this object. `local_batch` is that of
  /// one pass.
  TrainingStep(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
               Parameters& parameters, Optimizer& optimizer, Loss& loss, std::int64_t local_batch,
               Trace* trace, Reduction reduction = Reduction::kAuto,
               const GradientRules& rules = {});

  /// Trains on the loader's next batches, one per pass. Returns this rank's share of their loss:
  /// the sum over all ranks is the loss. Communicates with the group and with the holders of the
  /// same parameters.
  ///
  /// A gradient g of the norm n > clip_norm becomes g * clip_norm / n before the update (Pascanu et
  /// al., ICML 2013, algorithm 1; torch.nn.utils.clip_grad_norm_ adds 1e-6 to n).
  double run(Loader& loader, const StepSettings& settings);

  /// Freezes the layers before number `first` from now on: backward ends at layer `first`, and
  /// steps neither compute nor sum gradients before it nor update parameters there. Not during a
  /// step; the same on all ranks.
  void train_from(std::size_t first);

  /// Counts of this rank since construction, including evaluations but not its input.
  StepCounts counts() const { return {executor_.halo_counts(), reducer_.counts(), {}, 0}; }

  /// The terms of this rank's share of the last step's loss, with GradientRules::reproducible.
  /// Their sum over all ranks is the loss, with the same bits on every mesh.
  const ExactSum& exact_loss() const { return exact_loss_; }

  /// The norm of the last step's gradient before clipping; 0 if gradients are not clipped.
  double gradient_norm() const { return gradient_norm_; }

  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }
  GradientReducer& reducer() { return reducer_; }
  const GradientReducer& reducer() const { return reducer_; }

 private:
  double run_pass(Loader& loader, const StepSettings& settings, std::int64_t number);
  double find_loss(const Batch& batch, std::int64_t global_batch);
  void clip_gradient();
  void clip_gradient(double squares);

  const ProcessMesh& mesh_;
  Parameters& parameters_;
  Optimizer& optimizer_;
  Loss& loss_;
  std::int64_t local_batch_;
  GradientRules rules_;
  Trace* trace_;
  ReplicaSums replica_sums_;  // before the layers, which do not know the user's settings
  Executor executor_;
  GradientReducer reducer_;
  PartSums part_sums_;
  SumOverParts sum_;
  std::vector<double> loss_sums_;  // by sample, where the gradient of the loss reads them
  SquareSums squares_;
  std::vector<double> squares_of_;  // by parameter, where sums are exact
  ExactSum exact_loss_;
  double gradient_norm_ = 0;
};

}  // namespace halomesh
