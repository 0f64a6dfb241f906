// SPDX-License-Identifier: Apache-2.0
// Reads batches ahead on a background thread: see direct_loader.hpp.
#include "runtime/load/direct_loader.hpp"

#include <chrono>
#include <utility>

#include "error.hpp"
#include "src/nn/transform.hpp"

namespace halomesh {

DirectLoader::DirectLoader(std::unique_ptr<SampleReader> reader, const BatchSpec& spec)
    : reader_(std::move(reader)), spec_(spec) {
  const std::int64_t local = spec.local_batch;
  require(local > 0, text("a local batch of {} samples", local),
          "the global batch must be a multiple of the number of replicas");
  for (Buffer& buffer : buffers_) {
    buffer.data = Tensor(spec.box, local, spec.type);
    buffer.targets.resize(static_cast<std::size_t>(local * spec.targets));
  }
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

/// Starts reading the next step's samples, if there is one, into the buffer that is not in use.
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
  // Captures no more than std::function holds without allocating memory.
  task_.start([this, &buffer] {
    timed("read", begun_ - 1, [&] {
      const ReadCounts before = read_counts_of_thread();
      fill(buffer);
      buffer.reads = read_counts_of_thread() - before;
    });
  });
}

/// On the background thread: reads the samples of `buffer`, unless the loader is being destroyed.
void DirectLoader::fill(Buffer& buffer) {
  const std::size_t count = buffer.uses.size();
  const auto targets = static_cast<std::size_t>(spec_.targets);
  const AnyView data = buffer.data.any_view();
  const std::span<float> all_targets = std::span(buffer.targets).first(count * targets);
  buffer.samples.clear();
  for (const SampleUse& use : buffer.uses) buffer.samples.push_back(use.sample);
  const auto samples = static_cast<std::int64_t>(count);
  buffer.batch = {samples, {data.data, data.type, data.span, samples}, all_targets, buffer.samples};
  if (spec_.box.empty() && targets == 0) return;
  for (std::size_t i = 0; i < count && !stopping_; ++i) {
    const AnyView block{data.data + static_cast<std::int64_t>(i) * data.sample_bytes(), data.type,
                        data.span, 1};
    read(buffer.uses[i], block, all_targets.subspan(i * targets, targets));
  }
}

void DirectLoader::read(const SampleUse& use, AnyView block, std::span<float> targets) {
  if (use.symmetry.is_identity() || block.span.empty()) {
    reader_->read(use.sample, block, targets);
    return;
  }
  reader_->read_slabs(
      use.sample, use.symmetry.source_of(block.span, spec_.shape),
      [&](TensorView<const std::int16_t> layer) {
        transform(layer, layer.span, use.symmetry, spec_.shape, block);
      },
      targets);
}

}  // namespace halomesh
