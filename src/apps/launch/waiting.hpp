// SPDX-License-Identifier: Apache-2.0
// How OpenMP threads wait for the next parallel loop where ranks have more threads than processors.
#pragma once

#include <cstdint>

#include "runtime/machine/launch_problems.hpp"

namespace halomesh {

/// True when the launcher has started more threads on this node than it has `processors` (hardware
/// threads), by OMP_NUM_THREADS, and the user has not chosen how threads wait (OMP_WAIT_POLICY,
/// GOMP_SPINCOUNT or KMP_BLOCKTIME). By default threads that wait keep their processors for some
/// milliseconds, which other ranks need then: four ranks of two threads on two cores took four
/// times as long. Knows the launchers of Open MPI, MPICH and Slurm. Local.
bool should_wait_passively(const Variable& variable, std::int64_t processors);

/// Where should_wait_passively(), sets OMP_WAIT_POLICY=passive and starts this program again in
/// this process: OpenMP libraries read it only when they are loaded. Call it before MPI starts,
/// with the arguments of main().
void wait_passively_where_crowded(char** argv);

}  // namespace halomesh
