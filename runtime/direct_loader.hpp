// Blocks of coming samples, read by a thread of its own while the current step computes.
// Knows nothing of file formats, of MPI or of how the order of samples was drawn.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/dataset.hpp"
#include "runtime/loader.hpp"

namespace halomesh {

/// Reads each sample's block straight from the data set. Its thread makes no MPI call; no call is
/// collective. The source of a turned block is read in layers, which are turned one by one: there
/// is no third block.
class DirectLoader final : public Loader {
 public:
  /// With an empty box and no targets, nothing is read at all.
  DirectLoader(std::unique_ptr<SampleReader> reader, const BatchSpec& spec);
  /// Ends at the latest when the sample that is being read has been read.
  ~DirectLoader() override;

  void append(const Course& course) override;
  const Batch& next() override;

 private:
  struct Epoch {
    std::vector<SampleUse> uses;  // this replica's
    std::int64_t steps = 0;
  };
  struct Buffer {
    Tensor data;
    std::vector<float> targets;
    std::vector<SampleUse> uses;
    std::vector<std::int64_t> samples;
    Batch batch;
  };

  void run();
  void take_step(Buffer& buffer);
  void fill(Buffer& buffer);
  void read(const SampleUse& use, AnyView block, std::span<float> targets);

  const std::unique_ptr<SampleReader> reader_;
  const BatchSpec spec_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_. Buffers are filled and used in turn: buffer i % 2 holds step i.
  std::array<Buffer, 2> buffers_;
  std::deque<Epoch> epochs_;
  std::int64_t step_ = 0;  // within the first epoch of epochs_
  std::int64_t filled_ = 0, released_ = 0, taken_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace halomesh
