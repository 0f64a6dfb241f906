// SPDX-License-Identifier: Apache-2.0
// Whether a step fits the memory, or outputs of cheap layers are to be computed again: the choice
// of --recompute auto.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Bytes that processes need with outputs kept, and with those of cheap layers computed again.
struct MemoryNeed {
  std::int64_t kept = 0, recomputed = 0;
};

/// True where `need` with outputs kept is more than `available` bytes, or so little less that the
/// prediction may be wrong (see docs/planning.md), and recomputation needs less.
bool should_recompute(const MemoryNeed& need, std::int64_t available);

/// The memory that a process may still take.
struct MemoryRoom {
  std::int64_t node = 0;     ///< of its node, shared with other ranks there
  std::int64_t process = 0;  ///< of this process alone
};

struct RecomputeChoice {
  bool recomputes = false;
  MemoryNeed need;             ///< where memory is tightest: of the ranks there that share it
  std::int64_t available = 0;  ///< bytes
  std::int64_t ranks = 1;      ///< that share it
};

/// The choice for all ranks of `world`, the same on each: by the node, or the process, that needs
/// the most of what it has. `need`: of this rank, beyond what it has taken already. Collective.
RecomputeChoice choose_recompute(const Comm& world, const MemoryNeed& need, const MemoryRoom& room);

/// "--recompute auto: on, as ...": one line that says why, with the numbers.
std::string to_text(const RecomputeChoice& choice);

}  // namespace halomesh
