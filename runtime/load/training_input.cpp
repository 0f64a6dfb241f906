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

/// Throws Error unless all samples have the same extents, as a stage has room for.
void check_one_extent(const Dataset& data) {
  for (std::int64_t sample = 0; sample < data.size(); ++sample)
    require(data.shape_of(sample) == data.shape(),
            text("sample {} of {} has {}, others {} along some axis", data.name(sample),
                 data.directory().c_str(), data.shape_of(sample), data.shape()),
            "a stage holds samples of the same extents: train without --stage-dir");
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
  if (options_ && training.crops != nullptr) check_one_extent(*training.data);
}

BatchSpec TrainingInput::spec(const InputSplit& split) const {
  return {sample_.shape,
          sample_.blocks[static_cast<std::size_t>(mesh_.part())],
          targets_,
          split.order.local_batch,
          type_,
          mesh_.replica(),
          split.data->has_labels() ? Shape{1, sample_.shape.d, sample_.shape.h, sample_.shape.w}
                                   : split.data->target_shape(),
          split.data->target_type()};
}

std::unique_ptr<Loader> TrainingInput::direct_loader(const InputSplit& split) const {
  if (split.crops == nullptr)
    return std::make_unique<DirectLoader>(split.data->reader(), spec(split));
  return std::make_unique<DirectLoader>(split.data->reader(), spec(split), split.data,
                                        split.crops->padding.value_or(0));
}

/// The blocks of labels that the parts need. Collective over mesh.group().
std::vector<Box> TrainingInput::label_blocks() const {
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
  return blocks;
}

/// What the parts keep and need of a sample: their blocks of the input, or of crops a share of the
/// sample that is theirs alone.
StagedSample TrainingInput::staged_sample() const {
  if (training_.crops == nullptr) return sample_;
  const Partition blocks = block_partition(training_.data->shape(), mesh_.shape().parts);
  return {training_.data->shape(), blocks, blocks};
}

/// The same of its labels; empty if targets are scalars. Collective over mesh.group().
std::optional<StagedSample> TrainingInput::staged_labels() const {
  if (!training_.data->has_labels()) return {};
  const Shape& shape = training_.data->target_shape();
  if (training_.crops == nullptr) return staged_in_blocks(shape, label_blocks());
  const Partition blocks = block_partition(shape, mesh_.shape().parts);
  return StagedSample{shape, blocks, blocks};
}

std::optional<StagedCrops> TrainingInput::staged_crops() const {
  if (training_.crops == nullptr) return {};
  return StagedCrops{{sample_.shape, sample_.blocks},
                     {Shape{1, sample_.shape.d, sample_.shape.h, sample_.shape.w}, label_blocks()},
                     training_.crops->padding.value_or(0)};
}

std::int64_t TrainingInput::samples_to_stage() const {
  if (!options_) return 0;
  return training_.order.samples + (validation_.data != nullptr ? validation_.order.samples : 0);
}

bool TrainingInput::open(const std::function<bool()>& must_stop, const Stager::Report& report) {
  if (!options_) {
    training_loader_ = direct_loader(training_);
    if (validation_.data != nullptr) validation_loader_ = direct_loader(validation_);
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
  stager_ = std::make_unique<Stager>(mesh_, staged_sample(), *options_, std::move(splits), job,
                                     staged_labels());
  return stager_->run(must_stop, report);
}

void TrainingInput::open_staged(StagedSplits staged) {
  const std::optional<StagedSample> labels = staged_labels();
  const std::optional<StagedCrops> crops = staged_crops();
  const auto loader = [&](const InputSplit& split, StagedSplit& of_split) {
    return std::make_unique<StageLoader>(mesh_, staged_sample(), std::move(of_split), spec(split),
                                         labels, crops ? &*crops : nullptr);
  };
  training_loader_ = loader(training_, staged.front());
  if (validation_.data != nullptr) validation_loader_ = loader(validation_, staged.back());
}

}  // namespace halomesh
