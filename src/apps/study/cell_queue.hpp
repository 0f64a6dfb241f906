// SPDX-License-Identifier: Apache-2.0
// Hands out the cells of a study to groups of ranks: a free group takes the next cell.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// A directory of empty files, one for each cell taken in this job. Files are created exclusively,
/// which is atomic on every file system, so a group need not wait for groups at work, as it would
/// with messages. The caller holds the lock of the parent directory.
class CellQueue {
 public:
  /// Creates the directory and removes leftovers of an earlier job. Collective over `world`.
  CellQueue(const Comm& world, std::filesystem::path directory);

  /// True for the first group that asks for this cell. The same on every rank of `group`;
  /// collective over it.
  bool take(const Comm& group, std::int64_t cell) const;

  /// Removes the directory. Call it on one rank when all groups have ended.
  void remove() const;

 private:
  std::filesystem::path directory_;
};

}  // namespace halomesh
