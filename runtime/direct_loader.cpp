// The reading thread and its hand-over of batches.
// Knows nothing of file formats, of MPI or of how the order of samples was drawn.
#include "runtime/direct_loader.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "error.hpp"
#include "runtime/background_task.hpp"
#include "src/nn/turn.hpp"

namespace halomesh {

DirectLoader::DirectLoader(std::unique_ptr<SampleReader> reader, const BatchSpec& spec)
    : reader_(std::move(reader)), spec_(spec) {
  const std::int64_t local = spec.local_batch;
  require(local > 0, cat("a local batch of ", local, " samples"),
          "the global batch must be a multiple of the number of replicas");
  for (Buffer& buffer : buffers_) {
    buffer.data = Tensor(spec.box, local, spec.type);
    buffer.targets.resize(static_cast<std::size_t>(local * spec.targets));
    buffer.uses.resize(static_cast<std::size_t>(local));
    buffer.samples.resize(static_cast<std::size_t>(local));
  }
  thread_ = std::thread([this] { run(); });
}

DirectLoader::~DirectLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DirectLoader::append(const Course& course) {
  require(course.local_batch == spec_.local_batch,
          cat("batches of ", course.local_batch, " for a loader of ", spec_.local_batch));
  if (course.steps <= 0) return;
  Epoch epoch{{}, course.steps};
  for (std::int64_t step = 0; step < course.steps; ++step) {
    const auto taken = course.taken(step, spec_.replica);
    epoch.uses.insert(epoch.uses.end(), taken.begin(), taken.end());
  }
  {
    const std::lock_guard lock(mutex_);
    epochs_.push_back(std::move(epoch));
  }
  steps_left_ += course.steps;
  changed_.notify_all();
}

const Batch& DirectLoader::next() {
  if (steps_left_ <= 0) throw Error("a batch was asked for when no step was left");
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  released_ = taken_;  // the batch handed out before may be overwritten from now on
  changed_.notify_all();
  changed_.wait(lock, [this] { return filled_ > taken_ || failure_ != nullptr; });
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (filled_ == taken_) std::rethrow_exception(failure_);
  --steps_left_;
  return buffers_[static_cast<std::size_t>(taken_++ % 2)].batch;
}

void DirectLoader::run() {
  give_way_on_waking();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [this] { return stopping_ || (!epochs_.empty() && filled_ < released_ + 2); });
    if (stopping_) return;
    Buffer& buffer = buffers_[static_cast<std::size_t>(filled_ % 2)];
    take_step(buffer);
    lock.unlock();
    std::exception_ptr failure;
    try {
      fill(buffer);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure != nullptr) {
      failure_ = failure;
      changed_.notify_all();
      return;
    }
    ++filled_;
    changed_.notify_all();
  }
}

/// Moves the next step's samples into `buffer`. Called with the lock held.
void DirectLoader::take_step(Buffer& buffer) {
  const Epoch& epoch = epochs_.front();
  const auto total = static_cast<std::int64_t>(epoch.uses.size());
  const std::int64_t begin = std::min(step_ * spec_.local_batch, total);
  const std::int64_t count = std::min(spec_.local_batch, total - begin);
  std::copy_n(epoch.uses.begin() + begin, count, buffer.uses.begin());
  buffer.batch.count = count;
  if (++step_ < epoch.steps) return;
  epochs_.pop_front();
  step_ = 0;
}

/// Reads the samples of `buffer`. Called without the lock; gives up when the loader is to end.
void DirectLoader::fill(Buffer& buffer) {
  const auto count = static_cast<std::size_t>(buffer.batch.count);
  const auto targets = static_cast<std::size_t>(spec_.targets);
  const AnyView data = buffer.data.any_view();
  const std::span<float> all_targets = std::span(buffer.targets).first(count * targets);
  buffer.batch.data = {data.data, data.type, data.span, buffer.batch.count};
  buffer.batch.targets = all_targets;
  buffer.batch.samples = std::span(buffer.samples).first(count);
  for (std::size_t i = 0; i < count; ++i) buffer.samples[i] = buffer.uses[i].sample;
  if (spec_.box.empty() && targets == 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
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
  reader_->read_layers(
      use.sample, use.symmetry.source_of(block.span, spec_.shape),
      [&](TensorView<const std::int16_t> layer) {
        turn(layer, layer.span, use.symmetry, spec_.shape, block);
      },
      targets);
}

}  // namespace halomesh
