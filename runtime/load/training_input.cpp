// SPDX-License-Identifier: Apache-2.0
// The source of a trainer's batches: see training_input.hpp.
#include "runtime/load/training_input.hpp"

#include <sstream>
#include <string>
#include <utility>

#include "error.hpp"
#include "runtime/data/foreground_scan.hpp"
#include "runtime/load/direct_loader.hpp"
#include "runtime/load/stage_loader.hpp"
#include "runtime/log/progress.hpp"

namespace halomesh {
namespace {

/// The shapes of all samples, with `channels` channels.
std::vector<Shape> shapes_of(const Dataset& data, std::int64_t channels) {
  std::vector<Shape> shapes;
  for (std::int64_t sample = 0; sample < data.size(); ++sample) {
    shapes.push_back(data.shape_of(sample));
    shapes.back().c = channels;
  }
  return shapes;
}

void check_type(const Dataset& data, DataType type) {
  const DataType given = data.format().type();
  require(given == type || (given == DataType::kInt16 && type == DataType::kFloat32),
          text("the samples in {} are {}, the network reads {}", data.directory().c_str(),
               name_of(given), name_of(type)),
          "use a network for such data, or other data");
}

/// Throws Error for the first sample that the crops do not fit. Returns whether any sample is
/// smaller.
bool any_is_smaller(const Dataset& data, const Shape& input, const CropOptions& crops) {
  bool any = false;
  for (std::int64_t sample = 0; sample < data.size(); ++sample) {
    const Shape shape = data.shape_of(sample);
    const auto check = [&](bool fits, const char* cure) {
      require(fits,
              text("sample {} of {} has {}, the network reads {}", data.name(sample),
                   data.directory().c_str(), shape, input),
              cure);
    };
    const bool smaller = shape.d < input.d || shape.h < input.h || shape.w < input.w;
    const bool larger = shape.d > input.d || shape.h > input.h || shape.w > input.w;
    check(!smaller || crops.padding,
          "give --pad with the value of voxels beyond a sample, or a smaller --input");
    check(!larger || crops.random, "give a larger --input, or --patches random to train on crops");
    any = any || smaller;
  }
  return any;
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
  for (const InputSplit& split : {training, validation}) {
    if (split.data == nullptr) continue;
    check_type(*split.data, type);
    if (split.crops != nullptr && any_is_smaller(*split.data, sample_.shape, *split.crops))
      pads_ = true;
  }
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

/// The blocks of labels that each part needs. Collective over mesh.group().
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

/// The boxes of samples that each part keeps and needs: blocks of the input or, with crops, a share
/// of each sample that no other part keeps.
StagedSamples TrainingInput::staged_samples(const InputSplit& split) const {
  if (split.crops == nullptr) return sample_;
  return {shapes_of(*split.data, split.data->shape().c), mesh_.shape().parts};
}

/// The boxes of labels that each part keeps; parts need `blocks`. Empty if targets are scalars.
std::optional<StagedSamples> TrainingInput::staged_labels(const InputSplit& split,
                                                          const std::vector<Box>& blocks) const {
  if (!split.data->has_labels()) return {};
  if (split.crops == nullptr) return staged_in_blocks(split.data->target_shape(), blocks);
  return StagedSamples(shapes_of(*split.data, 1), mesh_.shape().parts);
}

std::optional<StagedCrops> TrainingInput::staged_crops(const InputSplit& split,
                                                       const std::vector<Box>& label_blocks) const {
  if (split.crops == nullptr) return {};
  return StagedCrops{{sample_.shape, sample_.blocks},
                     {Shape{1, sample_.shape.d, sample_.shape.h, sample_.shape.w}, label_blocks},
                     split.crops->padding.value_or(0)};
}

std::int64_t TrainingInput::samples_to_stage() const {
  if (!options_) return 0;
  return training_.order.samples + (validation_.data != nullptr ? validation_.order.samples : 0);
}

bool TrainingInput::open(const std::function<bool()>& must_stop, const Stager::Report& report) {
  if (!options_) {
    if (needs_foreground()) {
      foreground_ = scan_foreground(mesh_.world(), *training_.data, must_stop);
      if (foreground_.empty()) return false;
    }
    training_loader_ = direct_loader(training_);
    if (validation_.data != nullptr && !validates_windows())
      validation_loader_ = direct_loader(validation_);
    return true;
  }
  auto staged = stage(must_stop, report);
  if (staged) open_staged(std::move(*staged));
  return staged.has_value();
}

std::optional<StagedSplits> TrainingInput::stage(const std::function<bool()>& must_stop,
                                                 const Stager::Report& report, const Comm* job) {
  const std::vector<Box> blocks = label_blocks();
  const auto source = [&](const char* name, const InputSplit& split, const SampleOwners& owners) {
    return SplitSource{name, split.data, owners, staged_samples(split),
                       staged_labels(split, blocks)};
  };
  std::vector<SplitSource> splits{
      source("train", training_, SampleOwners::of_training(training_.order))};
  splits.front().find_foreground = needs_foreground();
  if (validation_.data != nullptr)
    splits.push_back(
        source("validation", validation_, SampleOwners::of_validation(validation_.order)));
  stager_ = std::make_unique<Stager>(mesh_, *options_, std::move(splits), job);
  return stager_->run(must_stop, report);
}

void TrainingInput::open_staged(StagedSplits staged) {
  const std::vector<Box> blocks = label_blocks();
  const auto loader = [&](const InputSplit& split, StagedSplit& of_split) {
    const std::optional<StagedCrops> crops = staged_crops(split, blocks);
    return std::make_unique<StageLoader>(mesh_, staged_samples(split), std::move(of_split),
                                         spec(split), staged_labels(split, blocks),
                                         crops ? &*crops : nullptr);
  };
  foreground_ = std::move(staged.front().foreground);
  training_loader_ = loader(training_, staged.front());
  if (validation_.data == nullptr) return;
  if (!validates_windows()) {
    validation_loader_ = loader(validation_, staged.back());
    return;
  }
  BatchSpec of_windows = spec(validation_);
  of_windows.targets = {};
  volumes_ = std::make_unique<StagedVolumes>(
      mesh_, staged_samples(validation_), staged_labels(validation_, blocks).value(),
      std::move(staged.back()), of_windows, staged_crops(validation_, blocks).value());
}

}  // namespace halomesh
