// SPDX-License-Identifier: Apache-2.0
// Batches from staged data: see stage_loader.hpp.
#include "runtime/load/stage_loader.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "error.hpp"

namespace halomesh {

StageLoader::StageLoader(const ProcessMesh& mesh, StagedSamples samples, StagedSplit split,
                         const BatchSpec& spec, std::optional<StagedSamples> labels,
                         const StagedCrops* crops)
    : mesh_(mesh),
      comm_(mesh.world().dup()),
      owners_(split.owners),
      targets_(std::move(split.targets)),
      spec_(spec),
      samples_(mesh, comm_, owners_, std::move(samples), std::move(split.file),
               {spec.type, 0, split.labels ? 2 : 1,
                crops ? std::optional(crops->values) : std::nullopt, crops ? crops->padding : 0}) {
  if (split.labels)
    labels_.emplace(mesh, comm_, owners_, std::move(labels.value()), std::move(*split.labels),
                    StagedBlocks::Delivery{spec.target_type, 1, 2,
                                           crops ? std::optional(crops->labels) : std::nullopt});
  require(spec.box == samples_.box(),
          text("the stage holds blocks {}, batches need {}", samples_.box(), spec.box));
  require(!labels_ || spec.targets == labels_->box(),
          text("the stage holds blocks {} of labels, batches need {}",
               labels_ ? labels_->box() : Box{}, spec.targets));
  for (Buffer& buffer : *buffers_) {
    buffer.data = Tensor(spec.box, spec.local_batch, spec.type);
    buffer.targets = Tensor(spec.targets, spec.local_batch, spec.target_type);
    buffer.samples.resize(static_cast<std::size_t>(spec.local_batch));
  }
}

StageLoader::~StageLoader() {
  try {  // other ranks wait for this rank's messages, unless they end as well
    if (!unwinding()) advance(true);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no one is left to report it to
  }
  each_tensor([](StagedBlocks& blocks) { blocks.close(); });
}

void StageLoader::append(const BatchSchedule& schedule) {
  require(schedule.local_batch == spec_.local_batch,
          text("batches of {} for a loader of {}", schedule.local_batch, spec_.local_batch));
  if (schedule.steps <= 0) return;
  schedules_.push_back(schedule);
  steps_left_ += schedule.steps;
  if (phase_ == Phase::kIdle) begin();
}

const Batch& StageLoader::next() {
  if (steps_left_ <= 0) throw Error("a batch was requested after the last step");
  const double start = MPI_Wtime();
  advance(true);
  const Batch& batch = (*buffers_)[static_cast<std::size_t>((begun_ - 1) % 2)].batch;
  phase_ = Phase::kIdle;
  --steps_left_;
  if (steps_left_ > 0) begin();
  wait_seconds_ += MPI_Wtime() - start;
  return batch;
}

void StageLoader::progress() { advance(false); }

/// Starts the next step of the schedule in the idle buffer.
void StageLoader::begin() {
  const BatchSchedule& schedule = schedules_.front();
  Buffer& buffer = (*buffers_)[static_cast<std::size_t>(begun_++ % 2)];
  const auto taken = schedule.taken(step_, mesh_.replica());
  const AnyView data = buffer.data.any_view(), targets = buffer.targets.any_view();
  samples_.begin(schedule, step_, data);
  if (labels_) labels_->begin(schedule, step_, targets);
  std::int64_t place = 0;
  for (const SampleUse& use : taken) take_use(use, place++, buffer);
  buffer.batch = {place,
                  {data.data, data.type, data.span, place},
                  {targets.data, targets.type, targets.span, place},
                  std::span(buffer.samples).first(taken.size())};
  if (++step_ == schedule.steps) {
    schedules_.pop_front();
    step_ = 0;
  }
  phase_ = Phase::kMaking;
  task_.start([this] {
    timed("gather", begun_ - 1,
          [this] { each_tensor([](StagedBlocks& blocks) { blocks.gather(); }); });
  });
}

/// Records a sample's number, and its targets unless they are labels or not needed.
void StageLoader::take_use(const SampleUse& use, std::int64_t place, Buffer& buffer) const {
  buffer.samples[static_cast<std::size_t>(place)] = use.sample;
  if (labels_ || spec_.targets.empty()) return;
  const std::size_t count = targets_.size() / static_cast<std::size_t>(owners_.samples());
  const View all = buffer.targets.view();
  copy_scalars(std::span(targets_).subspan(static_cast<std::size_t>(use.sample) * count, count),
               View{all.data + place * all.sample_volume(), all.span, 1});
}

/// Makes the thread, which is idle, transform the data that have arrived.
void StageLoader::place() {
  bool some = false;
  each_tensor([&](StagedBlocks& blocks) { some |= blocks.choose_arrived(); });
  if (!some) return;
  task_.start([this] {
    timed("place", begun_ - 1,
          [this] { each_tensor([](StagedBlocks& blocks) { blocks.place(); }); });
  });
}

/// Continues to prepare the next step, without waiting unless `wait` is set.
void StageLoader::advance(bool wait) {
  if (phase_ != Phase::kMaking) return;
  if (wait) {
    finish();
    return;
  }
  each_tensor([](StagedBlocks& blocks) { blocks.progress(); });
  if (!task_.done()) return;
  task_.wait();
  place();
}

void StageLoader::finish() {
  if (samples_.compressed())
    while (!task_.done_within(std::chrono::microseconds(100)))
      each_tensor([](StagedBlocks& blocks) { blocks.progress(); });
  task_.wait();
  each_tensor([](StagedBlocks& blocks) { blocks.send_filled(); });
  each_tensor([this](StagedBlocks& blocks) {
    blocks.await_receives([this] {
      if (!task_.done()) return;
      task_.wait();
      place();
    });
  });
  task_.wait();
  place();
  task_.wait();
  each_tensor([](StagedBlocks& blocks) { blocks.finish_sends(); });
  phase_ = Phase::kReady;
}

}  // namespace halomesh
