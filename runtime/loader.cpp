// The reading thread and its hand-over of batches.
// Knows nothing of file formats, of MPI or of how the order of samples was drawn.
#include "runtime/loader.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "error.hpp"

namespace halomesh {

Loader::Loader(std::unique_ptr<SampleReader> reader, const Box& box, std::int64_t targets,
               std::int64_t local_batch, DataType type)
    : reader_(std::move(reader)),
      box_(box.normalized()),
      targets_(targets),
      local_batch_(local_batch) {
  require(local_batch > 0, cat("a local batch of ", local_batch, " samples"),
          "the global batch must be a multiple of the number of replicas");
  for (Buffer& buffer : buffers_) {
    buffer.data = Tensor(box_, local_batch, type);
    buffer.targets.resize(static_cast<std::size_t>(local_batch * targets));
    buffer.samples.resize(static_cast<std::size_t>(local_batch));
  }
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::append(std::vector<std::int64_t> samples, std::int64_t steps) {
  require(static_cast<std::int64_t>(samples.size()) <= steps * local_batch_,
          cat(samples.size(), " samples do not fit ", steps, " steps of ", local_batch_));
  if (steps <= 0) return;
  {
    const std::lock_guard lock(mutex_);
    epochs_.push_back({std::move(samples), steps});
  }
  steps_left_ += steps;
  changed_.notify_all();
}

const Batch& Loader::next() {
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

void Loader::run() {
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

/// Moves the next step's sample numbers into `buffer`. Called with the lock held.
void Loader::take_step(Buffer& buffer) {
  const Epoch& epoch = epochs_.front();
  const auto total = static_cast<std::int64_t>(epoch.samples.size());
  const std::int64_t begin = std::min(step_ * local_batch_, total);
  const std::int64_t count = std::min(local_batch_, total - begin);
  std::copy_n(epoch.samples.begin() + begin, count, buffer.samples.begin());
  buffer.batch.count = count;
  if (++step_ < epoch.steps) return;
  epochs_.pop_front();
  step_ = 0;
}

/// Reads the samples of `buffer`. Called without the lock; gives up when the loader is to end.
void Loader::fill(Buffer& buffer) {
  const auto count = static_cast<std::size_t>(buffer.batch.count);
  const auto targets = static_cast<std::size_t>(targets_);
  const AnyView data = buffer.data.any_view();
  const std::span<float> all_targets = std::span(buffer.targets).first(count * targets);
  buffer.batch.data = {data.data, data.type, box_, buffer.batch.count};
  buffer.batch.targets = all_targets;
  buffer.batch.samples = std::span(buffer.samples).first(count);
  if (box_.empty() && targets == 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    const AnyView sample{data.data + static_cast<std::int64_t>(i) * data.sample_bytes(), data.type,
                         box_, 1};
    reader_->read(buffer.samples[i], sample, all_targets.subspan(i * targets, targets));
  }
}

}  // namespace halomesh
