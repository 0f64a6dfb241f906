// SPDX-License-Identifier: Apache-2.0
// The choice of --recompute auto: whether a step fits into memory, or the outputs of cheap layers
// are to be recomputed.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Bytes that processes need with all outputs kept, and with those of cheap layers recomputed.
struct MemoryNeed {
  std::int64_t kept = 0, recomputed = 0;
};

/// True if recomputation needs less, and `need` with outputs kept exceeds `available` bytes or
/// comes so close that the prediction may be wrong (see docs/planning.md).
bool should_recompute(const MemoryNeed& need, std::int64_t available);

/// The memory that a process may still allocate.
struct MemoryRoom {
  std::int64_t node = 0;     ///< on its node, shared with other ranks there
  std::int64_t process = 0;  ///< for this process alone
};

struct RecomputeChoice {
  bool recomputes = false;
  MemoryNeed need;             ///< where memory is tightest: the sum over the ranks that share it
  std::int64_t available = 0;  ///< bytes
  std::int64_t ranks = 1;      ///< the number of ranks that share it
};

/// The choice for all ranks of `world`, the same on each: decided by the node or process that needs
/// the largest share of its memory. `need` is this rank's, beyond the memory that it already has.
/// Collective.
RecomputeChoice choose_recompute(const Comm& world, const MemoryNeed& need, const MemoryRoom& room);

/// One line that explains the choice with its numbers: "--recompute auto: on, as ...".
std::string to_text(const RecomputeChoice& choice);

}  // namespace halomesh
