// SPDX-License-Identifier: Apache-2.0
// Reads batches ahead on a background thread: see direct_loader.hpp.
#include "runtime/load/direct_loader.hpp"

#include <chrono>
#include <utility>

#include "error.hpp"
#include "partition/samples/crops.hpp"
#include "src/nn/transform.hpp"

namespace halomesh {

DirectLoader::DirectLoader(std::unique_ptr<SampleReader> reader, const BatchSpec& spec,
                           const Dataset* volumes, float padding)
    : reader_(std::move(reader), padding), spec_(spec), volumes_(volumes) {
  const std::int64_t local = spec.local_batch;
  require(local > 0, text("a local batch of {} samples", local),
          "the global batch must be a multiple of the number of replicas");
  for (Buffer& buffer : buffers_) {
    buffer.data = Tensor(spec.box, local, spec.type);
    buffer.targets = Tensor(spec.targets, local, spec.target_type);
  }
  if (spec.has_target_field()) target_source_ = Tensor(spec.targets, 1, spec.target_type);
}

DirectLoader::~DirectLoader() { stopping_ = true; }

void DirectLoader::append(const BatchSchedule& schedule) {
  require(schedule.local_batch == spec_.local_batch,
          text("batches of {} for a loader of {}", schedule.local_batch, spec_.local_batch));
  if (schedule.steps <= 0) return;
  schedules_.push_back(schedule);
  steps_left_ += schedule.steps;
  if (!making_) begin();
}

const Batch& DirectLoader::next() {
  if (steps_left_ <= 0) throw Error("a batch was requested after the last step");
  const auto start = std::chrono::steady_clock::now();
  task_.wait();
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Buffer& made = buffers_[static_cast<std::size_t>((begun_ - 1) % 2)];
  reads_ += made.reads;
  --steps_left_;
  begin();
  return made.batch;
}

/// Starts reading the samples of the next step, if there is one, into the idle buffer.
void DirectLoader::begin() {
  making_ = !schedules_.empty();
  if (!making_) return;
  const BatchSchedule& schedule = schedules_.front();
  Buffer& buffer = buffers_[static_cast<std::size_t>(begun_++ % 2)];
  const auto taken = schedule.taken(step_, spec_.replica);
  buffer.uses.assign(taken.begin(), taken.end());
  if (++step_ == schedule.steps) {
    schedules_.pop_front();
    step_ = 0;
  }
  // The captures are small enough for std::function to need no allocation.
  task_.start([this, &buffer] {
    timed("read", begun_ - 1, [&] {
      const ReadCounts before = read_counts_of_thread();
      fill(buffer);
      buffer.reads = read_counts_of_thread() - before;
    });
  });
}

/// Runs on the background thread: reads the samples of `buffer`, unless the loader is being
/// destroyed.
void DirectLoader::fill(Buffer& buffer) {
  const std::size_t count = buffer.uses.size();
  const AnyView data = buffer.data.any_view(), targets = buffer.targets.any_view();
  buffer.samples.clear();
  for (const SampleUse& use : buffer.uses) buffer.samples.push_back(use.sample);
  const auto samples = static_cast<std::int64_t>(count);
  buffer.batch = {samples,
                  {data.data, data.type, data.span, samples},
                  {targets.data, targets.type, targets.span, samples},
                  buffer.samples};
  if (spec_.box.empty() && spec_.targets.empty()) return;
  const auto sample_of = [](const AnyView& all, std::size_t i) {
    return AnyView{all.data + static_cast<std::int64_t>(i) * all.sample_bytes(), all.type, all.span,
                   1};
  };
  for (std::size_t i = 0; i < count && !stopping_; ++i)
    read(buffer.uses[i], sample_of(data, i), sample_of(targets, i));
}

void DirectLoader::read(const SampleUse& use, AnyView block, AnyView targets) {
  if (!use.symmetry.is_identity() && spec_.has_target_field() && !targets.span.empty()) {
    const Box source = use.symmetry.source_of(targets.span, spec_.target_shape);
    const AnyView from{target_source_.any_view().data, targets.type, source, 1};
    read_input(use, block, from);
    transform(from, source, use.symmetry, spec_.target_shape, targets);
  } else {
    read_input(use, block, targets);
  }
}

CropReader::Crop DirectLoader::crop_of(const SampleUse& use) const {
  if (volumes_ == nullptr) return {use.sample, spec_.shape, {}};
  const Shape shape = volumes_->shape_of(use.sample);
  return {use.sample, shape,
          use.origin.value_or(centred_origin(shape.spatial(), spec_.shape.spatial()))};
}

/// Reads a block with the sample's symmetry applied, and targets untransformed.
void DirectLoader::read_input(const SampleUse& use, AnyView block, AnyView targets) {
  const CropReader::Crop crop = crop_of(use);
  if (use.symmetry.is_identity() || block.span.empty()) {
    if (volumes_ == nullptr)
      reader_.reader().read(use.sample, block, targets);
    else
      reader_.read(crop, block, targets);
    return;
  }
  const Box source = use.symmetry.source_of(block.span, spec_.shape);
  const auto place = [&](AnyConstView slab) {
    transform(slab, slab.span, use.symmetry, spec_.shape, block);
  };
  if (volumes_ == nullptr) {
    reader_.reader().read_slabs(use.sample, source, place, targets);
    return;
  }
  if (!CropReader::is_inside(crop, source)) reader_.pad(block);
  reader_.read_slabs(crop, source, place, targets);
}

}  // namespace halomesh
