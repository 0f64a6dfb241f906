// SPDX-License-Identifier: Apache-2.0
// Reads the blocks of the next batch on a background thread while the current step computes.
// Must not depend on MPI.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/data/crop_reader.hpp"
#include "runtime/load/loader.hpp"
#include "runtime/posix/background_task.hpp"

namespace halomesh {

/// Reads each sample's block straight from the data set. Its thread makes no MPI call; no call is
/// collective. The source of a transformed block is read slab by slab, and each slab is transformed
/// at once, so that no third block is needed.
class DirectLoader final : public Loader {
 public:
  /// With an empty box and no targets, nothing is read at all. With `volumes`, whose samples have
  /// other extents than spec.shape, crops of that shape are read: see SampleUse::origin and, for
  /// `padding`, CropReader. The data set must outlive the loader.
  DirectLoader(std::unique_ptr<SampleReader> reader, const BatchSpec& spec,
               const Dataset* volumes = nullptr, float padding = 0);
  /// Returns at the latest when the current sample has been read.
  ~DirectLoader() override;

  void append(const BatchSchedule& schedule) override;
  const Batch& next() override;

 private:
  struct Buffer {
    Tensor data, targets;
    std::vector<SampleUse> uses;
    std::vector<std::int64_t> samples;
    Batch batch;
    ReadCounts reads;  // of this batch
  };

  void begin();
  void fill(Buffer& buffer);
  void read(const SampleUse& use, AnyView block, AnyView targets);
  CropReader::Crop crop_of(const SampleUse& use) const;
  void read_input(const SampleUse& use, AnyView block, AnyView targets);

  CropReader reader_;
  const BatchSpec spec_;
  const Dataset* const volumes_;
  std::deque<BatchSchedule> schedules_;
  std::int64_t step_ = 0;   // of the first schedule: the next one to begin
  std::int64_t begun_ = 0;  // steps; buffer (begun_ - 1) % 2 is the newest
  bool making_ = false;     // a batch that next() has not yet returned
  std::array<Buffer, 2> buffers_;
  Tensor target_source_;  // of a sample that is to be transformed; only for fields
  std::atomic<bool> stopping_ = false;
  BackgroundTask task_;  // last: it uses all of the above
};

}  // namespace halomesh
