// SPDX-License-Identifier: Apache-2.0
// Batches from staged data: during each step, ranks send the blocks that they keep to the ranks
// that need them in the next step.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "partition/samples/staged_samples.hpp"
#include "runtime/load/loader.hpp"
#include "runtime/load/staged_blocks.hpp"
#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/posix/background_task.hpp"
#include "runtime/stage/stager.hpp"

namespace halomesh {

/// The blocks of cropped samples and of their labels that the parts need.
struct StagedCrops {
  CropBlocks values, labels;
  float padding = 0;  ///< the value of voxels beyond a sample
};

/// Loads batches from a stage. Every rank knows the whole schedule, so sends and receives match
/// without negotiation. A sample's owner does not change; a replica that uses another's sample
/// receives its blocks. Samples are one tensor, their labels (if targets are not scalars) another.
/// See StagedBlocks for the work of a step on the main thread and on the loader's thread.
///
/// Memory: the batch in use and the batch being prepared, no third block.
class StageLoader final : public Loader {
 public:
  /// Collective over mesh.world(), as is the destructor unless an exception unwinds. `samples` are
  /// the blocks that each part keeps and needs, `labels` those of their labels, if the split has
  /// any; with `crops`, parts need its blocks instead. The mesh must outlive this object.
  StageLoader(const ProcessMesh& mesh, StagedSamples samples, StagedSplit split,
              const BatchSpec& spec, std::optional<StagedSamples> labels = {},
              const StagedCrops* crops = nullptr);
  ~StageLoader() override;

  void append(const BatchSchedule& schedule) override;
  const Batch& next() override;
  void progress() override;

  /// Bytes received from other ranks since construction.
  std::int64_t received_bytes() const {
    return samples_.received_bytes() + (labels_ ? labels_->received_bytes() : 0);
  }

 private:
  struct Buffer {
    Tensor data, targets;
    std::vector<std::int64_t> samples;
    Batch batch;
  };
  enum class Phase { kIdle, kMaking, kReady };

  template <class Act>
  void each_tensor(const Act& act) {
    act(samples_);
    if (labels_) act(*labels_);
  }
  void begin();
  void take_use(const SampleUse& use, std::int64_t place, Buffer& buffer) const;
  void place();
  void advance(bool wait);
  void finish();

  const ProcessMesh& mesh_;
  Comm comm_;
  const SampleOwners owners_;
  const std::vector<float> targets_;  // the targets of all samples; empty if they are labels
  BatchSpec spec_;

  std::deque<BatchSchedule> schedules_;
  std::int64_t step_ = 0;   // in the first schedule: the next step to begin
  std::int64_t begun_ = 0;  // steps begun; buffer (begun_ - 1) % 2 is being prepared
  InFlight<std::array<Buffer, 2>> buffers_;
  Phase phase_ = Phase::kIdle;
  // These follow the buffers, so that their messages end before the buffers are freed.
  StagedBlocks samples_;
  std::optional<StagedBlocks> labels_;
  BackgroundTask task_;  // last, because it uses all members above
};

}  // namespace halomesh
