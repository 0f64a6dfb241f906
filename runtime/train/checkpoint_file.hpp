// SPDX-License-Identifier: Apache-2.0
// The layout of a checkpoint file: see save_checkpoint().
// Local: must not depend on MPI.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "error.hpp"
#include "partition/model_geometry.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/train/training_state.hpp"

namespace halomesh {

/// An unusable checkpoint: the file is no checkpoint, is truncated, fails a checksum or has values
/// that are not finite.
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

/// The trees of a checkpoint by name: "parameters", then the optimizer's states. Each has a dataset
/// for each parameter.
using CheckpointTrees = std::vector<std::string>;

/// A range of outputs of one parameter: the unit of sending and storing, and one chunk of the
/// dataset.
struct OutputRows {
  std::int64_t begin = 0, count = 0;
};
/// Cuts a parameter into ranges of at most 4 MiB, or of one output if that is larger.
std::vector<OutputRows> pieces_of(const ParameterGeometry& geometry);

/// Writes one checkpoint, which gets its name in commit(). Every function throws Error. Datasets
/// are written in pieces_of() order, so that their checksums are computed along the way.
class CheckpointWriter {
 public:
  /// Creates the directory, removes partial files of killed runs from it and writes everything but
  /// the parameters' values.
  CheckpointWriter(const std::filesystem::path& directory, const ModelGeometry& geometry,
                   const CheckpointTrees& trees, const TrainingState& state);
  /// `block` has whole outputs in the parameter's logical order. Rejects values that are not
  /// finite.
  void write(const std::string& tree, const ParameterPlacement& where, const OutputRows& rows,
             std::span<const float> block);
  void commit();

 private:
  AtomicFile target_;  // outlives the file, whose temporary it removes
  Hdf5File file_;
  // Checksums of the parts of datasets written so far.
  std::map<std::string, std::uint32_t> checksums_;
};

/// Reads a checkpoint and verifies checksums (files of older versions have only HDF5's own) and
/// that values are finite. Every function throws DamagedCheckpoint, ReadError if the system does
/// not read the file, or Error if file or network is not the expected one, naming the file.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& path);
  const TrainingState& state() const { return state_; }
  bool has(const std::string& tree);
  /// Throws unless the file has these trees, with the layers and shapes of this network and, unless
  /// it `may_have_more`, no others.
  void require_network(const ModelGeometry& geometry, const CheckpointTrees& trees,
                       bool may_have_more = false);
  /// Reads a piece. The pieces of a dataset must be read in pieces_of() order: the last one
  /// verifies the checksum.
  void read(const std::string& tree, const ParameterPlacement& where, const OutputRows& rows,
            std::span<float> block);

 private:
  void require_tree(const std::string& tree, const ModelGeometry& geometry, bool may_have_more);
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse_optimizer(const std::string& tree) const;
  void verify_checksum(const std::string& dataset);
  Hdf5File file_;
  bool has_checksums_ = false;
  TrainingState state_;
  std::uint32_t checksum_ = 0;  // the checksum of the current dataset's pieces read so far
};

/// Reads only the state. Throws Error naming the file.
TrainingState read_state(const std::filesystem::path& path);

}  // namespace halomesh
