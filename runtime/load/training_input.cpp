// SPDX-License-Identifier: Apache-2.0
// The source of a trainer's batches: see training_input.hpp.
#include "runtime/load/training_input.hpp"

#include <sstream>
#include <string>
#include <utility>

#include "error.hpp"
#include "runtime/load/direct_loader.hpp"
#include "runtime/load/stage_loader.hpp"
#include "runtime/log/progress.hpp"

namespace halomesh {
namespace {

void check_type(const Dataset& data, DataType type) {
  const DataType given = data.format().type();
  require(given == type || (given == DataType::kInt16 && type == DataType::kFloat32),
          text("the samples in {} are {}, the network reads {}", data.directory().c_str(),
               name_of(given), name_of(type)),
          "use a network for such data, or other data");
}

}  // namespace

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
      options_(std::move(stage)) {
  for (const Dataset* data : {training.data, validation.data})
    if (data != nullptr) check_type(*data, type);
}

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

/// The blocks of labels that the parts need; empty if targets are scalars. Collective over
/// mesh.group().
std::optional<StagedSample> TrainingInput::label_blocks() const {
  if (!training_.data->has_labels()) return {};
  std::ostringstream mine;
  for (const std::int64_t bound : targets_.lo) mine << bound << ' ';
  for (const std::int64_t bound : targets_.hi) mine << bound << ' ';
  std::vector<Box> blocks;
  for (const std::string& text : mesh_.group().all_gather(mine.str())) {
    std::istringstream in(text);
    Box& block = blocks.emplace_back();
    for (std::int64_t& bound : block.lo) in >> bound;
    for (std::int64_t& bound : block.hi) in >> bound;
  }
  return staged_in_blocks(training_.data->target_shape(), std::move(blocks));
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
  stager_ =
      std::make_unique<Stager>(mesh_, sample_, *options_, std::move(splits), job, label_blocks());
  return stager_->run(must_stop, report);
}

void TrainingInput::open_staged(StagedSplits staged) {
  const std::optional<StagedSample> labels = label_blocks();
  training_loader_ = std::make_unique<StageLoader>(mesh_, sample_, std::move(staged.front()),
                                                   spec(training_), labels);
  if (validation_.data != nullptr)
    validation_loader_ = std::make_unique<StageLoader>(mesh_, sample_, std::move(staged.back()),
                                                       spec(validation_), labels);
}

}  // namespace halomesh
