// SPDX-License-Identifier: Apache-2.0
// The settings of a training run, and values that follow from them alone. Must not depend on
// models/ or on the command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partition/samples/sample_order.hpp"
#include "partition/samples/symmetry.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/load/training_input.hpp"
#include "runtime/log/mllog.hpp"
#include "runtime/posix/directory_lock.hpp"
#include "runtime/step/training_step.hpp"
#include "runtime/trace/run_timeline.hpp"
#include "runtime/train/gradient_skips.hpp"
#include "runtime/train/resume_rules.hpp"
#include "src/nn/schedule.hpp"

namespace halomesh {

struct Evaluation;

struct TrainerOptions {
  std::int64_t global_batch = 1;
  std::int64_t epochs = 1;  ///< ends after this many; 0: no limit
  std::int64_t steps = 0;   ///< ends after this many; 0: no limit
  std::uint64_t seed = 0;
  Shuffle shuffle = Shuffle::kGlobal;
  bool augment = false;  ///< transform training samples by symmetries that preserve their shape
  std::vector<Symmetry> symmetries{};  ///< these; empty: all that do
  std::optional<CropOptions> crops;    ///< empty: samples have the extents of the network's input
  /// Makes the loss for samples whose extents differ from the input's; random crops need it.
  std::function<std::unique_ptr<Loss>(const Shape& output)> make_loss;
  std::optional<StageOptions> stage;  ///< none: samples are read from the data set every time
  StagedSplits* staged = nullptr;     ///< an earlier stage, which run() takes; null: none
  OptimizerOptions optimizer;
  /// The largest norm of the gradient; 0: unlimited; empty: the optimizer's own.
  std::optional<double> clip_norm;
  std::int64_t accumulate = 1;             ///< passes per step; divides the local batch
  Reduction reduction = Reduction::kAuto;  ///< for gradients
  DataType payload = DataType::kFloat32;   ///< the type of gradients in messages
  std::vector<GradientSkip> skips;         ///< ascending
  bool reproducible = false;               ///< see GradientRules; includes metrics of validations
  MemoryUse memory = MemoryUse::kShared;   ///< see GradientRules
  ScheduleOptions schedule;
  double target_score = 0;  ///< stops once a validation reaches it; 0: never
  /// Called with each validation, on every rank.
  std::function<void(const Evaluation&)> after_validation;
  /// Called on every rank after the first whole epoch of the run, with the classes that none of its
  /// voxels has, if any.
  std::function<void(std::int64_t epoch, std::span<const std::size_t> classes)> without_classes;
  std::int64_t evaluate_every = 1;      ///< epochs between validations; 0: never
  bool evaluate_first = false;          ///< validate before the first step
  std::int64_t checkpoint_every = 0;    ///< steps between checkpoints; 0: at each epoch's end
  std::int64_t keep = 2;                ///< checkpoints kept
  double started_s = 0;                 ///< MPI_Wtime() when the program began; 0: now
  double wall_limit_s = 0;              ///< ends cleanly within this many seconds; 0: no limit
  std::filesystem::path out;            ///< directory of metrics.jsonl, mllog.txt and checkpoints/
  const DirectoryLock* lock = nullptr;  ///< the lock of `out`, checked before each checkpoint;
                                        ///< null: none
  MlperfLog* mllog = nullptr;  ///< owned by the caller and must outlive the trainer; null: none
  RunTimeline* timeline = nullptr;  ///< owned by the caller like `mllog`; null: no trace
  Settings model;                   ///< stored in checkpoints, to rebuild the network
  Settings run;                     ///< all other settings that affect the curve; stored as well
  std::vector<ResumeRule> rules;    ///< which of all these may change when resuming
  bool allow_changes = false;       ///< resume() accepts the changes that the rules allow
  std::string program;              ///< name and version, stored in checkpoints
};

/// The order in which the passes of each step use a data set's samples; `passes` is accumulate, or
/// 1 for whole steps. Throws as pass_batch().
SampleOrder sample_order(const TrainerOptions& options, const MeshShape& mesh,
                         const Dataset& dataset, std::int64_t passes);

/// The number of samples of a replica in each of the `passes` of a step. Throws UsageError if the
/// batch cannot be divided, naming batches that can.
std::int64_t pass_batch(std::int64_t global_batch, const MeshShape& mesh, std::int64_t passes);

/// The arrays that Parameters need for these options: the optimizer's and, for rounded gradients in
/// messages, kGradientResidual.
std::vector<std::string> states_of(const TrainerOptions& options);

/// How a step computes the gradient.
GradientRules gradient_rules(const TrainerOptions& options);

}  // namespace halomesh
