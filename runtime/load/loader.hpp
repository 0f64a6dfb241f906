// SPDX-License-Identifier: Apache-2.0
// The interface through which a step gets batches of a rank's blocks.
// Must not depend on MPI or on file formats.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "box.hpp"
#include "partition/samples/sample_order.hpp"
#include "runtime/posix/read_counts.hpp"
#include "src/nn/tensor.hpp"
#include "trace.hpp"

namespace halomesh {

/// The specification of a rank's batches.
struct BatchSpec {
  Shape shape;                         ///< the shape of a whole sample
  Box box;                             ///< this rank's block (of transformed samples); may be empty
  Box targets;                         ///< this rank's block of the targets; may be empty
  std::int64_t local_batch = 1;        ///< samples per batch, at most
  DataType type = DataType::kFloat32;  ///< int16 for counts; fp32 for fields, or log(1+x) of counts
  std::int64_t replica = 0;            ///< the replica whose share of a BatchSchedule is loaded
  Shape target_shape{};                ///< the shape of a sample's whole targets; optional for
                                       ///< scalars
  DataType target_type = DataType::kFloat32;

  /// True if targets are a field, which symmetries transform.
  bool has_target_field() const { return target_shape.d * target_shape.h * target_shape.w > 1; }
};

/// One step's local samples, as views into the Loader.
struct Batch {
  std::int64_t count = 0;                 // samples: 0 .. local batch
  AnyConstView data;                      // count x block
  AnyConstView targets;                   // count x block
  std::span<const std::int64_t> samples;  // their numbers in the data set
};

/// Delivers a step's batch while it prepares the next one: it holds only these two batches. All
/// functions are called by one thread, append() and next() in the same order on every rank.
class Loader {
 public:
  Loader() = default;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  virtual ~Loader() = default;

  /// Appends steps to those already added. Work on them starts at once, so that an epoch that is
  /// appended before the last step of the previous one starts without a pause. Throws Error if the
  /// schedule's batches are larger than the loader's.
  virtual void append(const BatchSchedule& schedule) = 0;

  /// Returns the next step's batch, valid until the following next(). Waits for it; rethrows errors
  /// of its preparation, and throws Error when no step is left.
  virtual const Batch& next() = 0;

  /// Lets messages make progress; call it regularly within a step.
  virtual void progress() {}

  /// Records the work of the loader's thread in `timeline`, which must outlive this object. Call it
  /// before append().
  void record_in(Timeline* timeline) { timeline_ = timeline; }

  /// The number of steps appended and not yet returned by next().
  std::int64_t steps_left() const { return steps_left_; }
  /// The time that next() has waited so far, in seconds.
  double input_wait_seconds() const { return wait_seconds_; }
  /// Counts of file reads for the batches that next() has returned; zeros when they come from a
  /// stage.
  const ReadCounts& reads() const { return reads_; }

 protected:
  /// Runs `work`, a part of preparing batch number `batch`, on the loader's thread, and records its
  /// time.
  template <class Work>
  void timed(std::string_view what, std::int64_t batch, const Work& work) const {
    const std::int64_t begin_ns = timeline_ != nullptr ? Trace::now_ns() : 0;
    work();
    if (timeline_ != nullptr) timeline_->load(what, batch, begin_ns, Trace::now_ns());
  }

  std::int64_t steps_left_ = 0;
  double wait_seconds_ = 0;
  ReadCounts reads_;

 private:
  Timeline* timeline_ = nullptr;
};

}  // namespace halomesh
