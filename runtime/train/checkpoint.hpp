// SPDX-License-Identifier: Apache-2.0
// Moves parameters between the ranks of a mesh and a checkpoint: one HDF5 file with the whole state
// of a training run, independent of the mesh.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "error.hpp"
#include "partition/model_geometry.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/train/training_state.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {

/// Writes `directory`/step-000000512.h5 (the number is state.step), creating the directory if
/// necessary. The file appears whole or not at all, and replaces an older one of that name.
/// Afterwards, the newest `keep` checkpoints up to this step remain (0: all). Checkpoints of later
/// steps, left behind by a run that went back to an older one, get `.superseded` added to their
/// names, so that latest_checkpoint() follows the curve in progress.
///
/// Collective over mesh.world(). Only replica 0 moves data: each slice goes from its first holder
/// to part 0, which is world rank 0 and writes; at most 4 MiB or one output's weights at a time. If
/// rank 0 cannot write, throws one Error on every rank and leaves no partial file.
///
///   /parameters/<layer>/weight  float32 out,in,kd,kh,kw   (dense: out,in with in as d,h,w,c)
///   /parameters/<layer>/bias    float32 out
///   /<state>/<layer>/...        likewise for each of Parameters::state_names(), such as the
///                               momentum in /optimizer
///   /model, /run                one text attribute per option
///   /                           attributes format, step, epoch, samples_into_epoch, seed,
///                               written_by, crc32c (see below)
///
/// Checksums are CRC-32C in attributes `crc32c` (uint32): for a dataset over its little-endian
/// bytes in order, for "/" over the state's to_text(). Values that are not finite are rejected.
void save_checkpoint(const ProcessMesh& mesh, const ModelGeometry& geometry, Parameters& parameters,
                     const TrainingState& state, const std::filesystem::path& directory, int keep);

/// Fills this rank's parameters from a checkpoint written on any mesh, verifying checksums and that
/// values are finite. A state kGradientResidual that the file lacks is cleared. Collective over
/// mesh.world(): rank 0 reads and broadcasts, 4 MiB or one output's weights at a time. Throws on
/// every rank DamagedCheckpoint, or Error if the file is missing, not readable, of another network
/// (naming layer, found and expected shape) or of another optimizer; the parameters may then be
/// partly overwritten.
TrainingState load_checkpoint(const ProcessMesh& mesh, const ModelGeometry& geometry,
                              Parameters& parameters, const std::filesystem::path& path,
                              LoadWhat what = LoadWhat::kAll);

/// The result of load_latest_checkpoint().
struct LoadedCheckpoint {
  std::filesystem::path path;
  TrainingState state;
  std::string warning;  ///< about newer, damaged checkpoints; empty if there are none
};

/// Loads the newest checkpoint of `directory` that is not damaged; damaged newer ones get
/// `.damaged` added to their names. Empty if there is no checkpoint. Collective over mesh.world().
/// Throws one Error on every rank if all are damaged (they then keep their names), or if the newest
/// intact one is of another network.
std::optional<LoadedCheckpoint> load_latest_checkpoint(const ProcessMesh& mesh,
                                                       const ModelGeometry& geometry,
                                                       Parameters& parameters,
                                                       const std::filesystem::path& directory);

/// The file itself or, if `given` is a run's directory, its newest checkpoint. Throws Error on
/// every rank if it holds none. Collective over `world`.
std::string newest_checkpoint(const Comm& world, const std::filesystem::path& given);

/// Returns work(newest_checkpoint(given)). A run in progress may remove that file before it is
/// read: the work is then repeated with the one that is the newest by now. Collective over `world`;
/// the work throws Error on all ranks or on none.
template <class Work>
auto with_newest_checkpoint(const Comm& world, const std::filesystem::path& given,
                            const Work& work) {
  for (std::string file = newest_checkpoint(world, given);;) {
    try {
      return work(file);
    } catch (const Error&) {
      std::string next = newest_checkpoint(world, given);
      if (next == file) throw;
      file = std::move(next);
    }
  }
}

}  // namespace halomesh
