// The layout of a checkpoint file and of the directory it lies in: see checkpoint.hpp.
// One rank's work: knows nothing of MPI or of where parameters are held.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/atomic_file.hpp"
#include "runtime/checkpoint.hpp"
#include "runtime/hdf5_file.hpp"

namespace halomesh {

/// The two trees of a checkpoint; both have a dataset for each parameter.
enum class CheckpointTree { kParameters, kOptimizer };

/// A range of outputs of one parameter: what is moved and stored at once, and one chunk of the
/// dataset.
struct OutputRows {
  std::int64_t begin = 0, count = 0;
};
/// Cuts a parameter in ranges of at most 4 MiB, or of one output where that has more.
std::vector<OutputRows> pieces_of(const ParameterGeometry& geometry);

/// Writes one checkpoint; the file gets its name in commit(). Every function throws Error.
class CheckpointWriter {
 public:
  /// Makes the directory, removes the half-written files of killed runs from it and writes all but
  /// the parameters' values.
  CheckpointWriter(const std::filesystem::path& directory, const ModelGeometry& geometry,
                   const TrainingState& state);
  /// `block`: whole outputs in the parameter's logical order.
  void write(CheckpointTree tree, const ParameterPlacement& where, const OutputRows& rows,
             std::span<const float> block);
  void commit();

 private:
  AtomicFile target_;  // outlives the file, whose temporary it removes
  Hdf5File file_;
};

/// Reads one checkpoint. Every function throws Error naming the file.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& path);
  TrainingState state() const;
  /// Throws unless the file has exactly the layers and shapes of this network.
  void require_network(const ModelGeometry& geometry, LoadWhat what);
  void read(CheckpointTree tree, const ParameterPlacement& where, const OutputRows& rows,
            std::span<float> block);

 private:
  void require_tree(const std::string& root, const ModelGeometry& geometry);
  [[noreturn]] void refuse(const std::string& what) const;
  Hdf5File file_;
};

/// See save_checkpoint(): what becomes of the other checkpoints once that of `step` is whole.
void retire_checkpoints(const std::filesystem::path& directory, std::int64_t step, int keep);

}  // namespace halomesh
