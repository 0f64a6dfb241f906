// SPDX-License-Identifier: Apache-2.0
// Where a rank runs: its cores, the other ranks on its node, its threads, and the node's hardware.
// Only inspects the operating system, hwloc and the launcher; changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/machine/topology.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// The cores and threads of one rank of a node.
struct RankCores {
  std::vector<int> cores;  ///< ascending
  int threads = 1;
};

/// The ranks of a node that may run on a core of a given rank, that rank included.
struct CoreSharing {
  int ranks = 1;
  int threads = 1;  ///< total of these ranks
  int cores = 0;    ///< total of these ranks, each core counted once
};

/// The sharing of rank number `rank` of a node.
CoreSharing core_sharing(std::span<const RankCores> ranks, std::size_t rank);

/// The processors, threads and memory of one rank.
struct RankBinding {
  std::string host;
  std::vector<int> processors;  ///< logical processors that this rank may use, ascending
  int cores = 0;                ///< physical cores among them
  int node_cores = 0;           ///< physical cores that any rank of this node may use
  int rank_on_node = 0, ranks_on_node = 1;
  int threads = 1;                        ///< OpenMP threads this rank should use
  bool threads_from_environment = false;  ///< OMP_NUM_THREADS decided
  std::optional<double> quota;            ///< processors by its control group's quota, for all
                                          ///< ranks of the group
  CoreSharing sharing;                    ///< cores shared with other ranks of the node
  std::vector<int> numa_nodes;            ///< with memory next to its processors, ascending
  int memory_domains = 0;                 ///< see Locality
  MemoryPolicy memory;                    ///< for pages that this rank touches first
  CacheSize l2, l3;                       ///< the caches of its first processor
  std::string cpu_model;                  ///< see Topology

  /// A text such as "node7: processors 0-3,8; 4 cores, 4 threads; rank 1 of 2 on the node; NUMA
  /// node 0".
  std::string describe() const;
};

/// The binding of this rank. Its threads are OMP_NUM_THREADS if set; else an equal share of the
/// node's cores, or of the processors by a control group's quota, rounded up, if these are fewer;
/// at least 1 and at most the rank's own cores: hardware threads of one core share its vector
/// units, so one thread per core is fastest. Collective over `world`. Throws UsageError if
/// OMP_NUM_THREADS is not a number.
RankBinding find_binding(const Comm& world);

/// The number of threads by the rule of find_binding(). `omp_num_threads` may be null; in a list
/// ("4,2" for nested levels) the first value counts.
int default_threads(const char* omp_num_threads, int node_cores, int ranks_on_node, int own_cores,
                    std::optional<double> quota = {});

/// Formats {0, 1, 2, 3, 8} as "0-3,8".
std::string to_ranges(const std::vector<int>& numbers);

/// The machine as described by its operating system; unknown values stay empty or 0.
struct NodeDescription {
  std::vector<std::string> isa;        ///< relevant vector extensions, as Linux names them
  std::int64_t memory_bytes = 0;       ///< in total
  std::int64_t shm_free_bytes = 0;     ///< at present, on the RAM disk
  std::int64_t page_bytes = 0;         ///< the size of an ordinary page
  std::int64_t huge_page_bytes = 0;    ///< the size of a huge page
  std::int64_t huge_pages = 0;         ///< reserved for programs that request them
  std::string transparent_huge_pages;  ///< "always", "madvise" or "never"
};

/// Reads cpuinfo and meminfo in `proc`, the kernel's settings in `sys`, and the free space at
/// `shm`. Local.
NodeDescription describe_node(const std::filesystem::path& proc = "/proc",
                              const std::filesystem::path& shm = "/dev/shm",
                              const std::filesystem::path& sys = "/sys");

}  // namespace halomesh
