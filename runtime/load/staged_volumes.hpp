// SPDX-License-Identifier: Apache-2.0
// Staged volumes with labels, for evaluation by sliding windows.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "partition/samples/sample_owners.hpp"
#include "partition/samples/staged_samples.hpp"
#include "runtime/load/stage_loader.hpp"
#include "runtime/mpi/in_flight.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/stage/stager.hpp"

namespace halomesh {

/// Loads windows as crops of the volumes, without their labels, and gives each rank the labels of
/// any box of a volume.
class StagedVolumes {
 public:
  /// `samples` and `labels` are the boxes of volumes and of their labels that each part keeps; each
  /// is a partition. `crops` and `spec` describe windows; spec.targets is empty. Collective over
  /// mesh.world(), as is the destructor; the mesh must outlive this object.
  StagedVolumes(const ProcessMesh& mesh, StagedSamples samples, StagedSamples labels,
                StagedSplit split, const BatchSpec& spec, const StagedCrops& crops);

  Loader& windows() { return windows_; }
  /// The labels of a volume in box wanted(rank), on each rank of mesh.world(); `wanted` is the same
  /// function on every rank. Valid until the next call. Collective over mesh.world(). Throws Error
  /// as StageFile::read() does, on one rank.
  AnyConstView labels(std::int64_t volume, const std::function<Box(int rank)>& wanted);

 private:
  const ProcessMesh& mesh_;
  Comm comm_;
  SampleOwners owners_;
  StagedSamples label_samples_;
  InFlight<StageFile> labels_;
  InFlight<std::vector<std::byte>> received_, room_;
  StageLoader windows_;
};

}  // namespace halomesh
