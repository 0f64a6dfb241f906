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
  std::uint64_t seed = 0;  ///< of dropout
  std::int64_t number = 0;
  float rate = 0;  ///< learning rate
};

/// How a step computes and changes the gradient of its batch.
struct GradientRules {
  std::int64_t passes = 1;  ///< forward and backward passes of a step, over a batch each
  double clip_norm = 0;     ///< largest 2-norm of the gradient of all parameters; 0: any
  DataType payload = DataType::kFloat32;  ///< kBfloat16: what travels between ranks, see PointSum
  /// Losses and gradients are summed exactly, so that they have the same bits on every mesh; all
  /// layers must be Layer::sums_exactly(). Sums over ranks are then MPI's own.
  bool reproducible = false;
  MemoryUse memory = MemoryUse::kShared;  ///< of the executor; does not affect results
};

/// `rules`. Throws where the loss, the network or the batch, `samples` in a pass, are not what they
/// need.
const GradientRules& check_rules(const GradientRules& rules, const Loss& loss, const Model& model,
                                 const ModelGeometry& geometry, std::int64_t samples);

/// A network and everything that its steps need. Steps after the first allocate no memory.
class TrainingStep {
 public:
  /// Collective over mesh.world(). All arguments must outlive this object. `local_batch` is that of
  /// a pass.
  TrainingStep(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
               Parameters& parameters, Optimizer& optimizer, Loss& loss, std::int64_t local_batch,
               Trace* trace, Reduction reduction = Reduction::kAuto,
               const GradientRules& rules = {});

  /// Trains on the loader's next batches, one for each pass. Returns this rank's share of the loss
  /// of all of them: the sum over all ranks is the loss. Communicates with the group and with the
  /// holders of the same parameters.
  ///
  /// A gradient g of the norm n > clip_norm becomes g * clip_norm / n before the update (Pascanu et
  /// al., ICML 2013, algorithm 1; torch.nn.utils.clip_grad_norm_ adds 1e-6 to n).
  double run(Loader& loader, const StepSettings& settings);

  /// From now on the layers below number `first` stay as they are: backward ends at layer `first`,
  /// and no step computes or sums gradients below it or updates parameters there. Not during a
  /// step; the same on all ranks.
  void train_from(std::size_t first);

  /// What this rank has moved since construction, in evaluations too; without its input.
  StepCounts counts() const { return {executor_.halo_counts(), reducer_.counts(), {}, 0}; }

  /// With GradientRules::reproducible, the terms of run()'s share of the last step's loss: added up
  /// over all ranks, their value is the loss, with the same bits on every mesh.
  const ExactSum& exact_loss() const { return exact_loss_; }

  /// The norm of the last step's gradient before clipping; 0 where it is not clipped.
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
  ReplicaSums replica_sums_;  // before the layers, which do not know what the user has set
  Executor executor_;
  GradientReducer reducer_;
  PartSums part_sums_;
  SumOverParts sum_;
  std::vector<double> loss_sums_;  // of each sample, where the loss's gradient reads them
  SquareSums squares_;
  std::vector<double> squares_of_;  // of each parameter, where sums are exact
  ExactSum exact_loss_;
  double gradient_norm_ = 0;
};

}  // namespace halomesh
