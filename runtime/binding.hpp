// Where a rank runs: its cores, its neighbours on the node, its threads, and what the node is.
// Only looks, at the operating system and the launcher; changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/mpi.hpp"

namespace halomesh {

/// The processors and threads of one rank.
struct RankBinding {
  std::string host;
  std::vector<int> processors;  ///< logical ones that this rank may run on, ascending
  int cores = 0;                ///< physical ones among them
  int node_cores = 0;           ///< physical ones that any rank of this node may run on
  int rank_on_node = 0, ranks_on_node = 1;
  int threads = 1;                        ///< OpenMP threads this rank should use
  bool threads_from_environment = false;  ///< OMP_NUM_THREADS decided

  /// "node7: processors 0-3,8; 4 cores, 4 threads; rank 1 of 2 on the node".
  std::string describe() const;
};

/// What this rank is bound to. threads = OMP_NUM_THREADS when set, else an equal share of the
/// node's cores, at least 1 and at most the rank's own cores: hardware threads of one core share
/// its vector units, so one thread a core is fastest.
/// Collective over `world`. Throws UsageError when OMP_NUM_THREADS is no number.
RankBinding find_binding(const Comm& world);

/// The share of a rank: see find_binding(). `omp_num_threads` may be null; of a list ("4,2", nested
/// levels) the first counts.
int default_threads(const char* omp_num_threads, int node_cores, int ranks_on_node, int own_cores);

/// "0-3,8" for {0, 1, 2, 3, 8}.
std::string to_ranges(const std::vector<int>& numbers);

/// The machine as its operating system describes it; what it does not say stays empty or 0.
struct NodeDescription {
  std::string cpu_model;
  std::vector<std::string> isa;   ///< vector extensions that matter here, as named by Linux
  std::int64_t memory_bytes = 0;  ///< in total
  std::int64_t memory_available_bytes = 0;  ///< without swapping, now
  std::int64_t shm_free_bytes = 0;          ///< on the RAM disk, now
};

/// Local. Reads cpuinfo and meminfo in `proc`, and asks for the space left at `shm`.
NodeDescription describe_node(const std::filesystem::path& proc = "/proc",
                              const std::filesystem::path& shm = "/dev/shm");

}  // namespace halomesh
