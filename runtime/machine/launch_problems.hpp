// SPDX-License-Identifier: Apache-2.0
// Problems with how a job was started: rank counts, shared cores, too many threads, remote memory,
// machine settings.
// Judges the bindings found by binding.hpp and the environment; changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/machine/binding.hpp"

namespace halomesh {

/// The facts about its job that one rank knows.
struct LaunchFacts {
  int rank = 0;
  std::int64_t ranks = 1;  ///< the size of MPI's world
  RankBinding binding;
  double core_flops = 0;  ///< fp32 operations per second measured on one core; 0: not measured
};

/// The value of an environment variable, or null: std::getenv, or a test's.
using Variable = std::function<const char*(const char* name)>;

/// True if OMP_WAIT_POLICY makes waiting threads keep their processors.
bool waits_actively(const Variable& variable);

/// True for A64FX: implementer 0x46 (Fujitsu), part 0x001 (Linux,
/// arch/arm64/include/asm/cputype.h).
bool is_a64fx(const std::string& cpu_model);

/// One sentence per problem, with its hint:
/// - rank 0: the scheduler's number of tasks differs from the number of ranks (PJM_MPI_PROC,
///   SLURM_NTASKS);
/// - cores shared with other ranks (oversubscribed or not), more threads than cores, first-touch
///   memory on another NUMA node, cores of several NUMA domains;
/// - more threads on the node than the processors that the control group's quota amounts to;
/// - ranks of several threads that share cores, more threads than cores, and threads that do not
///   sleep while they wait (OMP_WAIT_POLICY; GOMP_SPINCOUNT and KMP_BLOCKTIME are the user's);
/// - A64FX: a rank on several core memory groups without XOS_MMM_L_PAGING_POLICY=demand:...;
/// - A64FX: a core computes at half of its peak, 64 operations per cycle at 2.0 GHz (128 GF/s), or
///   below: one of its two floating-point units is switched off (eco_state of PJM), or other work
///   shares it.
/// Local.
std::vector<std::string> launch_problems(const LaunchFacts& facts, const Variable& variable);

/// Collects launch_problems() of all ranks: each sentence once, with the number of affected ranks
/// and the first one. The result is the same on every rank. Collective over `world`; `core_flops`
/// is LaunchFacts::core_flops.
std::vector<std::string> launch_warnings(const Comm& world, const RankBinding& binding,
                                         double core_flops = 0);

}  // namespace halomesh
