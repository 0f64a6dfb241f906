// Blocks of coming samples, read by a thread of its own while the current step computes.
// Knows nothing of file formats, of MPI or of how the order of samples was drawn.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "box.hpp"
#include "runtime/dataset.hpp"

namespace halomesh {

/// One step's local samples; views into the Loader.
struct Batch {
  std::int64_t count = 0;                 // samples: 0 .. local batch
  AnyConstView data;                      // count x block
  std::span<const float> targets;         // count x targets
  std::span<const std::int64_t> samples;  // their numbers in the data set
};

/// Reads ahead by one step: the batch in use and the one being read are all it holds. Its thread
/// makes no MPI call. All functions are local and called by one thread.
class Loader {
 public:
  /// Batches of up to `local_batch` samples: the block `box` (global coordinates; may be empty) and
  /// `targets` values of each (0: not wanted; with an empty box, nothing is read at all). `type` is
  /// that of the blocks: int16 for counts, fp32 for their log(1+x).
  Loader(std::unique_ptr<SampleReader> reader, const Box& box, std::int64_t targets,
         std::int64_t local_batch, DataType type = DataType::kFloat32);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  /// Ends at the latest when the sample that is being read has been read.
  ~Loader();

  /// Adds `steps` steps after those added before: step s takes the samples numbered
  /// samples[s * local_batch ...], fewer or none where these end. Reading starts at once, so an
  /// epoch that is added before the last step of the one before starts without a pause. Throws
  /// Error when there are more samples than the steps can take.
  void append(std::vector<std::int64_t> samples, std::int64_t steps);

  /// The next step's batch, valid until the following next(). Waits for it; throws what reading it
  /// threw, and Error when no step is left.
  const Batch& next();

  /// Steps added and not yet taken by next().
  std::int64_t steps_left() const { return steps_left_; }
  /// Time that next() has waited so far, in seconds.
  double input_wait_seconds() const { return wait_seconds_; }

 private:
  struct Epoch {
    std::vector<std::int64_t> samples;
    std::int64_t steps = 0;
  };
  struct Buffer {
    Tensor data;
    std::vector<float> targets;
    std::vector<std::int64_t> samples;
    Batch batch;
  };

  void run();
  void take_step(Buffer& buffer);
  void fill(Buffer& buffer);

  const std::unique_ptr<SampleReader> reader_;
  const Box box_;
  const std::int64_t targets_, local_batch_;
  std::int64_t steps_left_ = 0;
  double wait_seconds_ = 0;

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
