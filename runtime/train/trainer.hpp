// SPDX-License-Identifier: Apache-2.0
// The training loop: steps, epochs, evaluation, checkpoints and stopping, the same on every rank.
// Must not depend on models/ or on the command line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/samples/sample_order.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/load/training_input.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/log/mllog.hpp"
#include "runtime/log/progress.hpp"
#include "runtime/mpi/node_flag.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "runtime/step/evaluator.hpp"
#include "runtime/step/training_step.hpp"
#include "runtime/trace/run_timeline.hpp"
#include "runtime/train/checkpoint.hpp"
#include "runtime/train/phase_record.hpp"
#include "runtime/train/trainer_options.hpp"
#include "runtime/train/wall_limit.hpp"
#include "src/nn/schedule.hpp"

namespace halomesh {

enum class TrainingEnd { kDone, kTargetReached, kStopped, kDiverged };

struct TrainingResult {
  TrainingEnd end = TrainingEnd::kDone;
  std::int64_t steps = 0;    ///< counted from the network's first step
  std::int64_t epochs = 0;   ///< completed epochs
  double samples_per_s = 0;  ///< in training steps, without evaluation and checkpoints
  double input_wait = 0;     ///< the share of the training steps' time that this rank waited for
                             ///< input
  double first_loss = 0, last_loss = 0;  ///< at the first step of this run; running mean at its end
  std::optional<Evaluation> first_evaluation, last_evaluation;
  std::string phases;      ///< a table of where the time of this run's steps went; "" without steps
  std::string divergence;  ///< with kDiverged: the step, and its loss
};

/// Trains a network on one rank. Constructor and run() are collective over mesh.world().
class Trainer {
 public:
  /// `validation` may be null if options.evaluate_every is 0. `parameters` have the states
  /// states_of(options). All arguments but `options` must outlive the trainer. Allocates all memory
  /// of the network.
  Trainer(const ProcessMesh& mesh, Model& model, const ModelGeometry& geometry,
          Parameters& parameters, Loss& loss, const Dataset& train, const Dataset* validation,
          TrainerOptions options);

  /// Continues from a checkpoint that has been loaded into the parameters. Throws Error if it was
  /// written with different settings, unless options.rules and options.allow_changes permit the
  /// change. Returns warnings about changes and about settings that cannot be compared.
  std::vector<std::string> resume(const TrainingState& state);

  /// Trains until epochs, steps, the target, the wall limit or a signal end the run, and writes a
  /// checkpoint; or until the loss is no longer finite, without one.
  TrainingResult run();

  std::int64_t steps_per_epoch() const { return order_.training_steps(); }
  /// The step that ends the run unless it reaches the target first; 0: no limit.
  std::int64_t last_step() const;
  std::int64_t dropped_samples() const { return order_.dropped_samples(); }
  const Executor& executor() const { return training_.executor(); }

 private:
  struct StepSums {
    double loss = 0;
    bool stop = false;    // some rank must stop
    bool report = false;  // some rank was asked for a report
  };
  TrainingState current_state() const;
  bool checkpoint_due() const;
  bool limit_reached() const;
  bool evaluation_due() const;
  bool evaluation_pending() const { return evaluation_due() && evaluated_step_ != step_; }
  bool target_reached() const;
  bool finished() const { return limit_reached() || target_reached(); }
  bool must_stop() const;
  bool diverged() const { return !result_.divergence.empty(); }
  void open_logs();
  bool open_input();  // false if it was stopped
  TrainingEnd train_to_end();
  void append_epochs();
  void skip_gradients();
  bool train_epoch();  // false if it was stopped
  StepSums train_step();
  void tell(const std::optional<TraceReport>& trace);
  void after_step(const StepSums& sums, double seconds);
  void find_absent_classes();
  bool finish_epoch();                    // false if its evaluation was stopped
  bool evaluate_now(std::int64_t epoch);  // false if it was stopped
  Evaluation evaluation();
  void place_crops(std::int64_t epoch, BatchSchedule& steps) const;
  void save();
  StepCounts counts();
  void log_phases();
  void log_layers();
  void report_phases();

  const ProcessMesh& mesh_;
  const ModelGeometry& geometry_;
  Parameters& parameters_;
  Loss& loss_;
  TrainerOptions options_;
  SampleOrder order_, pass_order_, validation_order_;  // the last two count batches of a pass
  Schedule schedule_;
  std::unique_ptr<Optimizer> optimizer_;
  PhaseRecord phases_;
  TrainingStep training_;
  std::optional<SymmetryDraw> draw_;    // transformations of training samples
  const Dataset &train_, *validation_;  // the latter may be null
  TrainingInput input_;
  MetricsLog metrics_;
  MlperfLog no_mllog_;
  MlperfLog& mllog_;
  NodeFlag stop_answered_;
  StopSignals signals_;
  Progress progress_;

  std::int64_t step_ = 0;  // steps done, counted from the network's first
  std::int64_t saved_step_ = -1, evaluated_step_ = -1;
  EvaluationRecord last_record_;  // the evaluation after evaluated_step_
  std::int64_t skipped_layers_ = 0;
  bool looked_for_classes_ = false;
  std::int64_t appended_epochs_ = 0;  // epochs whose samples the loader knows
  WallLimit wall_limit_;
  double training_s_ = 0, recent_loss_ = 0;
  std::int64_t run_steps_ = 0;
  TrainingResult result_;
};

}  // namespace halomesh
