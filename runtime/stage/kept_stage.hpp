// SPDX-License-Identifier: Apache-2.0
// A stage that outlives its run: one rank's files under their names, with a manifest written last.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/stage/stage_directory.hpp"
#include "runtime/stage/stage_file.hpp"

namespace halomesh {

/// DIR/halomesh-stage-KEY/ holds for each rank rank-R.SPLIT.0, rank-R.SPLIT.1, ..., the blocks;
/// rank-R.json, the manifest that makes them complete; and rank-R.lock. KEY stands for all that a
/// stage depends on, so that runs with other data or on another mesh do not meet. All functions are
/// local.
class KeptStage {
 public:
  /// Where stages of this `key` (any text) are kept under `parent`: in a directory of this name.
  static std::string directory_name(const std::string& key);
  static bool exists(const std::filesystem::path& parent, const std::string& key);

  /// Makes the directory when it is missing. Throws Error when it is not this user's own.
  KeptStage(const std::filesystem::path& parent, std::string key, int rank);
  KeptStage(const KeptStage&) = delete;
  KeptStage& operator=(const KeptStage&) = delete;
  /// Leaves nothing of what this object locked and did not complete.
  ~KeptStage();

  /// Keeps other jobs from this rank's files until the process ends; "" or who does so already.
  std::string lock();

  /// One split: the blocks and what belongs to them.
  struct Split {
    std::vector<Descriptor> files;
    std::vector<StageFile::Entry> index;
    std::vector<float> targets;  ///< of the samples that this rank has read
  };
  /// This rank's splits of these names, if a complete stage with this very key is there: an intact
  /// manifest, and files as long as it says. Blocks are verified when they are used.
  std::optional<std::vector<Split>> find(const std::vector<std::string>& names) const;

  /// Names a finished split's files; to be followed by complete() when all of them have been named.
  void add(const std::string& split, const StageFile& blocks, const std::vector<float>& targets);
  void complete();
  /// Removes this rank's manifest and blocks; what is in use stays readable.
  void clear();
  /// Removes all of this rank's files, and the directory with the last of them.
  void remove();

 private:
  std::string name(const std::string& of) const { return prefix_ + of; }

  StageDirectory directory_;
  std::string key_, prefix_, manifest_;
  Descriptor lock_;
};

}  // namespace halomesh
