// Checkpoints: the whole state of a training in one HDF5 file, whatever the mesh.
// Knows the file's layout; nothing of how a network is trained or of what its options mean.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "partition/model_geometry.hpp"
#include "runtime/process_mesh.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {

/// Where a training stands, and what network it trains.
struct TrainingState {
  std::int64_t step = 0;                ///< optimizer steps done
  std::int64_t epoch = 0;               ///< the one that the next step belongs to, from 0
  std::int64_t samples_into_epoch = 0;  ///< of its order, over all replicas: those already used
  std::uint64_t seed = 0;
  std::map<std::string, std::string> model;  ///< options that rebuild the network
  std::map<std::string, std::string> run;    ///< others that the curve depends on (batch, order)
  std::string written_by;                    ///< name and version of the program

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

enum class LoadWhat {
  kAll,            ///< parameters and the optimizer's velocity
  kParametersOnly  ///< the velocity stays as it is
};

/// Writes `directory`/step-000000512.h5 (the number is state.step), making the directory if need
/// be. The file appears whole or not at all; an older one of that name is replaced.
/// Afterwards, of the checkpoints up to this step the newest `keep` stay (0: all); those of later
/// steps, which a run that went back to an older checkpoint leaves behind, get `.superseded` added
/// to their names so that latest_checkpoint() follows the curve in progress.
///
/// Collective over mesh.world(). Replica 0 alone moves data: each slice goes from its first holder
/// to part 0, which is world rank 0 and writes; at most 4 MiB or one output's weights at a time.
/// Throws the same Error on every rank when rank 0 cannot write; nothing half-written stays.
///
///   /parameters/<layer>/weight  float32 out,in,kd,kh,kw   (dense: out,in with in as d,h,w,c)
///   /parameters/<layer>/bias    float32 out
///   /optimizer/<layer>/...      the velocity, alike
///   /model, /run                one text attribute an option
///   /                           attributes format, step, epoch, samples_into_epoch, seed,
///   written_by
void save_checkpoint(const ProcessMesh& mesh, const ModelGeometry& geometry, Parameters& parameters,
                     const TrainingState& state, const std::filesystem::path& directory, int keep);

/// Fills this rank's parameters from a checkpoint that any mesh has written.
/// Collective over mesh.world(): rank 0 reads and broadcasts, 4 MiB or one output's weights at a
/// time. Throws the same Error on every rank when the file is missing, damaged or of another
/// network (naming layer, found and expected shape); a damage found late leaves the parameters
/// partly overwritten.
TrainingState load_checkpoint(const ProcessMesh& mesh, const ModelGeometry& geometry,
                              Parameters& parameters, const std::filesystem::path& path,
                              LoadWhat what = LoadWhat::kAll);

/// The state alone. Local. Throws Error naming the file.
TrainingState read_state(const std::filesystem::path& path);

/// The checkpoint of the highest step, by name; files that are not checkpoints by name, such as
/// those that a killed run left half-written, do not count. Empty when there is none or no such
/// directory. It is not opened: if it turns out damaged, load_checkpoint() says so, and no older
/// one is taken silently. Local.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

/// "step-000000512.h5".
std::string checkpoint_name(std::int64_t step);

}  // namespace halomesh
