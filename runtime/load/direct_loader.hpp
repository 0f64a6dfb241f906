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
/// at once, so no third block is needed.
class DirectLoader final : public Loader {
 public:
  /// With an empty box and no targets, nothing is read. With `volumes`, whose samples have other
  /// extents than spec.shape, crops of that shape are read: see SampleUse::origin and, for
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
    ReadCounts reads;  // the counts of this batch
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
  std::int64_t step_ = 0;   // in the first schedule: the next step to begin
  std::int64_t begun_ = 0;  // steps begun; buffer (begun_ - 1) % 2 is the newest
  bool making_ = false;     // a batch is in preparation that next() has not returned yet
  std::array<Buffer, 2> buffers_;
  // The target field of a sample before its transformation; empty for scalars.
  Tensor target_source_;
  std::atomic<bool> stopping_ = false;
  BackgroundTask task_;  // last, because it uses all members above
};

}  // namespace halomesh
