// SPDX-License-Identifier: Apache-2.0
// The source of a trainer's batches: see training_input.hpp.
#include "runtime/load/training_input.hpp"

#include <utility>

#include "runtime/load/direct_loader.hpp"
#include "runtime/load/stage_loader.hpp"
#include "runtime/log/progress.hpp"

namespace halomesh {

TrainingInput::TrainingInput(const ProcessMesh& mesh, const ModelGeometry& geometry, DataType type,
                             const Box& targets, const InputSplit& training,
                             const InputSplit& validation, std::optional<StageOptions> stage)
    : mesh_(mesh),
      sample_{geometry.tensors().front().shape, geometry.tensors().front().owned,
              geometry.tensors().front().span},
      type_(type),
      targets_(targets),
      training_(training),
      validation_(validation),
      options_(std::move(stage)) {}

BatchSpec TrainingInput::spec(const InputSplit& split) const {
  return {sample_.shape,
          sample_.blocks[static_cast<std::size_t>(mesh_.part())],
          targets_,
          split.order.local_batch,
          type_,
          mesh_.replica(),
          split.data->target_shape(),
          split.data->target_type()};
}

std::int64_t TrainingInput::samples_to_stage() const {
  if (!options_) return 0;
  return training_.order.samples + (validation_.data != nullptr ? validation_.order.samples : 0);
}

bool TrainingInput::open(const std::function<bool()>& must_stop, const Stager::Report& report) {
  if (!options_) {
    training_loader_ = std::make_unique<DirectLoader>(training_.data->reader(), spec(training_));
    if (validation_.data != nullptr)
      validation_loader_ =
          std::make_unique<DirectLoader>(validation_.data->reader(), spec(validation_));
    return true;
  }
  auto staged = stage(must_stop, report);
  if (staged) open_staged(std::move(*staged));
  return staged.has_value();
}

std::optional<StagedSplits> TrainingInput::stage(const std::function<bool()>& must_stop,
                                                 const Stager::Report& report, const Comm* job) {
  std::vector<SplitSource> splits{
      {"train", training_.data, SampleOwners::of_training(training_.order)}};
  if (validation_.data != nullptr)
    splits.push_back(
        {"validation", validation_.data, SampleOwners::of_validation(validation_.order)});
  stager_ = std::make_unique<Stager>(mesh_, sample_, *options_, std::move(splits), job);
  return stager_->run(must_stop, report);
}

void TrainingInput::open_staged(StagedSplits staged) {
  training_loader_ =
      std::make_unique<StageLoader>(mesh_, sample_, std::move(staged.front()), spec(training_));
  if (validation_.data != nullptr)
    validation_loader_ =
        std::make_unique<StageLoader>(mesh_, sample_, std::move(staged.back()), spec(validation_));
}

}  // namespace halomesh
