// SPDX-License-Identifier: Apache-2.0
// A stage that is kept after its run: one rank's named files, with a manifest that is written last.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/stage/stage_directory.hpp"
#include "runtime/stage/stage_file.hpp"

namespace halomesh {

/// Keeps a stage in DIR/halomesh-stage-KEY/. Each rank has rank-R.SPLIT.0, rank-R.SPLIT.1, ..., the
/// blocks; rank-R.json, the manifest that makes them complete; and rank-R.lock. KEY is a hash of
/// all that the stage depends on, so that runs with other data or on another mesh use other
/// directories. All functions are local.
class KeptStage {
 public:
  /// The name of the directory under `parent` in which stages with this `key` (any text) are kept.
  static std::string directory_name(const std::string& key);
  static bool exists(const std::filesystem::path& parent, const std::string& key);

  /// Creates the directory if it is missing. Throws Error if it belongs to another user.
  KeptStage(const std::filesystem::path& parent, std::string key, int rank);
  KeptStage(const KeptStage&) = delete;
  KeptStage& operator=(const KeptStage&) = delete;
  /// Removes files that this object has locked but not completed.
  ~KeptStage();

  /// Locks this rank's files until the process ends. Returns "" or names the process that has the
  /// lock.
  std::string lock();

  /// One split: its blocks and their metadata.
  struct Split {
    std::vector<Descriptor> files;
    std::vector<StageFile::Entry> index;
    std::vector<float> targets;  ///< targets of the samples that this rank has read
  };
  /// This rank's splits of these names, if a complete stage with exactly this key exists: an intact
  /// manifest and files of the recorded sizes. Blocks are verified when they are used.
  std::optional<std::vector<Split>> find(const std::vector<std::string>& names) const;

  /// Names the files of a finished split; call complete() after the last split.
  void add(const std::string& split, const StageFile& blocks, const std::vector<float>& targets);
  void complete();
  /// Removes this rank's manifest and blocks; open files stay readable.
  void clear();
  /// Removes all of this rank's files, and the directory when it is empty.
  void remove();

 private:
  std::string name(const std::string& of) const { return prefix_ + of; }

  StageDirectory directory_;
  std::string key_, prefix_, manifest_;
  Descriptor lock_;
};

}  // namespace halomesh
