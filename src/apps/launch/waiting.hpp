// SPDX-License-Identifier: Apache-2.0
// How threads wait for the next parallel loop, and ranks for messages.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/machine/launch_problems.hpp"

namespace halomesh {

/// The environment variables to set, by name, so that a waiting process leaves its processors to
/// others. Variables that the user has set are left out, and all of them if OMP_WAIT_POLICY is
/// "active": whole nodes then belong to the job.
///
/// - Threads sleep after some ten microseconds (GOMP_SPINCOUNT, KMP_BLOCKTIME). By default they
/// keep
///   their processors for milliseconds: beside one other busy process, steps took five times as
///   long.
/// - If the launcher has started more threads on this node, by OMP_NUM_THREADS, than it has
///   `processors` (hardware threads), they sleep at once (OMP_WAIT_POLICY=passive): four ranks of
///   two threads on two cores took four times as long. Knows the launchers of Open MPI, MPICH and
///   Slurm.
/// - Ranks in calls of Open MPI yield (OMPI_MCA_mpi_yield_when_idle).
///
/// Local.
std::map<std::string, std::string> waiting_settings(const Variable& variable,
                                                    std::int64_t processors);

/// Sets waiting_settings() and, if some are for threads, starts this program again in this process:
/// OpenMP libraries read them only when they are loaded. Call it before MPI starts, with the
/// arguments of main().
void wait_considerately(char** argv);

}  // namespace halomesh
