// SPDX-License-Identifier: Apache-2.0
// Hands out the cells of a study to groups of ranks: whoever is free takes the next.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// A directory of empty files, one for each cell that has been taken in this job: files are created
/// exclusively, which is atomic on every file system, so that a group waits for no other that is at
/// work, as it would for messages. The caller holds the lock of the directory's parent.
class CellQueue {
 public:
  /// Empties the directory and removes what an earlier job has left. Collective over `world`.
  CellQueue(const Comm& world, std::filesystem::path directory);

  /// True for the first group that asks for this cell. The same on every rank of `group`;
  /// collective over it.
  bool take(const Comm& group, std::int64_t cell) const;

  /// Removes the directory. Call it on one rank when all have ended.
  void remove() const;

 private:
  std::filesystem::path directory_;
};

}  // namespace halomesh
