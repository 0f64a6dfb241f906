// Where a trainer's batches come from: see training_input.hpp.
#include "runtime/training_input.hpp"

#include <utility>

#include "error.hpp"
#include "progress.hpp"
#include "runtime/direct_loader.hpp"
#include "runtime/stage_loader.hpp"

namespace halomesh {

TrainingInput::TrainingInput(const ProcessMesh& mesh, const ModelGeometry& geometry, DataType type,
                             bool wants_targets, const InputSplit& training,
                             const InputSplit& validation, std::optional<StageOptions> stage)
    : mesh_(mesh),
      sample_{geometry.tensors().front().shape, geometry.tensors().front().owned,
              geometry.tensors().front().span},
      type_(type),
      wants_targets_(wants_targets),
      training_(training),
      validation_(validation),
      options_(std::move(stage)) {}

BatchSpec TrainingInput::spec(const InputSplit& split) const {
  return {sample_.shape,
          sample_.kept[static_cast<std::size_t>(mesh_.part())],
          wants_targets_ ? split.data->targets() : 0,
          split.order.local_batch,
          type_,
          mesh_.replica()};
}

std::optional<std::vector<StagedSplit>> TrainingInput::stage(const std::function<bool()>& must_stop,
                                                             MetricsLog& metrics) {
  std::vector<SplitSource> splits{
      {"train", training_.data, SampleHomes::of_training(training_.order)}};
  std::int64_t samples = training_.order.samples;
  if (validation_.data != nullptr) {
    splits.push_back(
        {"validation", validation_.data, SampleHomes::of_validation(validation_.order)});
    samples += validation_.order.samples;
  }
  stager_ = std::make_unique<Stager>(mesh_, sample_, *options_, std::move(splits));
  Progress progress("staging", "samples", samples, mesh_.world().rank() == 0);
  auto staged = stager_->run(must_stop, [&](std::int64_t done) { progress.update(done); });
  progress.finish();
  if (!staged) return {};
  const StageRecord& record = stager_->record();
  metrics.stage(record);
  progress.message(cat(
      record.reused ? "took up the stage of " : "staged ", record.samples, " samples in ",
      record.seconds, " s: read ", static_cast<double>(record.bytes_read) * 1e-6, " MB, keeps ",
      static_cast<double>(record.bytes_staged) * 1e-6, " MB in ", options_->directory.string()));
  return staged;
}

bool TrainingInput::open(const std::function<bool()>& must_stop, MetricsLog& metrics) {
  if (!options_) {
    training_loader_ = std::make_unique<DirectLoader>(training_.data->reader(), spec(training_));
    if (validation_.data != nullptr)
      validation_loader_ =
          std::make_unique<DirectLoader>(validation_.data->reader(), spec(validation_));
    return true;
  }
  auto staged = stage(must_stop, metrics);
  if (!staged) return false;
  training_loader_ =
      std::make_unique<StageLoader>(mesh_, sample_, std::move(staged->front()), spec(training_));
  if (validation_.data != nullptr)
    validation_loader_ =
        std::make_unique<StageLoader>(mesh_, sample_, std::move(staged->back()), spec(validation_));
  return true;
}

}  // namespace halomesh
