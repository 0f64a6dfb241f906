// SPDX-License-Identifier: Apache-2.0
// The stage of several training runs: see shared_stage.hpp.
#include "src/apps/train/shared_stage.hpp"

#include <memory>
#include <utility>

#include "runtime/data/open_dataset.hpp"
#include "runtime/load/training_input.hpp"
#include "runtime/log/progress.hpp"
#include "src/apps/options/mlperf_options.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/source_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/train/training_crops.hpp"
#include "src/apps/train/training_plan.hpp"
#include "src/apps/train/training_run.hpp"
#include "src/apps/train/values_of_data.hpp"

namespace halomesh {

std::optional<SharedStage> stage_for_runs(const Comm& job, const Comm& group, const Options& given,
                                          const std::function<bool()>& must_stop) {
  MlperfLog mllog = begin_mlperf_log(group, given);
  const Options options = with_values_of_data(job, given);
  const PlannedNetwork network = planned_network(
      options, group.size(), precision_named(options.get<std::string>("precision")));
  const TrainerOptions trainer = plan_training(options, network);
  const ProcessMesh mesh(group, network.shape);
  const ModelGeometry& geometry = network.geometry;
  start_mlperf_run(group, options, mlperf_training(trainer, network.spec, options), mllog);
  const DataSource data = source_of(options);
  const TensorGeometry& output = geometry.tensors().back();
  const auto part = static_cast<std::size_t>(mesh.part());
  const Box owned = output.owned[part].empty() ? Box{} : output.span[part];  // as in the executor
  const TargetSpec targets = targets_of(*network.loss, output.shape);
  const CropOptions* const crops_used = trainer.crops ? &*trainer.crops : nullptr;
  const auto split = [&](const char* name) {
    return open_dataset(job, data, name, sample_shape(options, trainer.crops), targets);
  };
  const auto order = [&](const Dataset& dataset) {
    return sample_order(trainer, mesh.shape(), dataset, trainer.accumulate);
  };
  const auto training = split("train");
  const auto validation = trainer.evaluate_every > 0 ? split("validation") : nullptr;
  TrainingInput input(
      mesh, geometry, network.model.input_type(), network.loss->target_box(owned),
      {training.get(), order(*training), crops_used},
      {validation.get(), validation ? order(*validation) : SampleOrder{}, crops_used},
      trainer.stage);
  mllog.staging_start();
  Progress progress("staging", "samples", input.samples_to_stage(), job.rank() == 0);
  auto staged = input.stage(
      must_stop, [&](std::int64_t samples) { progress.update(samples); }, &job);
  progress.finish();
  if (!staged) return {};
  mllog.staging_stop();
  progress.message(to_text(*input.stage_record(), trainer.stage->directory) + " for all instances");
  return SharedStage{std::move(*staged), *input.stage_record(), std::move(mllog)};
}

}  // namespace halomesh
