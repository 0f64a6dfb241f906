// SPDX-License-Identifier: Apache-2.0
// The processors, caches and memory of a node as reported by hwloc. Only topology.cpp includes
// hwloc. Must not depend on MPI.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct hwloc_topology;

namespace halomesh {

/// One cache and the number of cores that share it; zeros if there is none or it is unknown.
struct CacheSize {
  std::int64_t bytes = 0;
  int cores = 0;
};

/// The cores and NUMA nodes of a set of processors.
struct Locality {
  std::vector<int> cores;       ///< each core by its first processor, ascending
  std::vector<int> numa_nodes;  ///< with memory next to these processors, ascending
  int memory_domains = 0;       ///< groups of cores with their own memory among the set's cores
  CacheSize l2, l3;             ///< the caches of the first processor
};

/// The operating system's policy for memory that a thread touches first.
struct MemoryPolicy {
  bool known = false;        ///< true if the system reports it
  bool spread = false;       ///< interleaved over `nodes`, instead of placed on the nearest
  std::vector<int> nodes{};  ///< the allowed NUMA nodes, ascending
};

/// True if memory of this policy lies, all or in part, away from processors next to `numa_nodes`;
/// false if either is unknown.
bool is_remote(const MemoryPolicy& policy, const std::vector<int>& numa_nodes);

/// A node. Move-only; all functions are local.
class Topology {
 public:
  /// Queries the operating system; takes a few milliseconds. Throws Error if hwloc fails.
  static Topology of_this_node();
  /// Makes a synthetic node, e.g. "package:2 numa:1 l2:8(size=1048576) core:1 pu:2". Throws Error
  /// for a description that hwloc does not understand.
  static Topology synthetic(const std::string& description);

  /// `processors` have the operating system's numbers; a processor that the topology does not know
  /// counts as a core without memory.
  Locality locality(const std::vector<int>& processors) const;
  /// The memory policy of the calling thread.
  MemoryPolicy memory_policy() const;

  /// The model of the first package, as its vendor names it or in the form "Arm implementer 0x46
  /// part 0x001"; empty if unknown.
  std::string cpu_model() const;
  int packages() const;
  int cores() const;
  int numa_nodes() const;

 private:
  struct Deleter {
    void operator()(hwloc_topology* topology) const;
  };
  Topology() = default;
  std::unique_ptr<hwloc_topology, Deleter> topology_;
};

}  // namespace halomesh
