// SPDX-License-Identifier: Apache-2.0
// The processors, caches and memory of a node: see topology.hpp.
// The only file that includes hwloc.
#include "runtime/machine/topology.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

void hwloc_check(int result, const std::string& what) {
  require(result == 0, text("{}: {}", what, std::strerror(errno)),
          "check the installation of hwloc: does its command lstopo work?");
}

/// A set of processors or NUMA nodes.
class Bitmap {
 public:
  Bitmap() : set_(hwloc_bitmap_alloc()) {
    require(set_ != nullptr, "out of memory for a set of processors");
  }
  Bitmap(const Bitmap&) = delete;
  Bitmap& operator=(const Bitmap&) = delete;
  ~Bitmap() { hwloc_bitmap_free(set_); }

  hwloc_bitmap_t get() const { return set_; }
  std::vector<int> numbers() const {
    std::vector<int> result;
    for (int i = hwloc_bitmap_first(set_); i >= 0; i = hwloc_bitmap_next(set_, i))
      result.push_back(i);
    return result;
  }

 private:
  hwloc_bitmap_t set_;
};

int count(hwloc_topology* topology, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(topology, type));
}

CacheSize cache_of(hwloc_topology* topology, hwloc_obj_t processor, hwloc_obj_type_t type) {
  const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, type, processor);
  if (cache == nullptr || cache->attr->cache.size == 0) return {};
  const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, cache->cpuset, HWLOC_OBJ_CORE);
  return {narrow<std::int64_t>(cache->attr->cache.size), std::max(1, cores)};
}

/// Counts memory domains. NUMA nodes of different kinds of memory may share their cores; together
/// they are one domain.
int count_domains(hwloc_topology* topology, const std::vector<int>& numa_nodes) {
  std::set<std::vector<int>> domains;
  for (const int node : numa_nodes) {
    const hwloc_obj_t object =
        hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(node));
    if (object == nullptr) continue;
    const Bitmap cores;
    hwloc_check(hwloc_bitmap_copy(cores.get(), object->cpuset), "the cores of a NUMA node");
    domains.insert(cores.numbers());
  }
  return narrow<int>(domains.size());
}

}  // namespace

bool is_remote(const MemoryPolicy& policy, const std::vector<int>& numa_nodes) {
  if (!policy.known || policy.nodes.empty() || numa_nodes.empty()) return false;
  const auto is_near = [&](int node) {
    return std::binary_search(numa_nodes.begin(), numa_nodes.end(), node);
  };
  return policy.spread ? !std::all_of(policy.nodes.begin(), policy.nodes.end(), is_near)
                       : std::none_of(policy.nodes.begin(), policy.nodes.end(), is_near);
}

void Topology::Deleter::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

Topology Topology::of_this_node() {
  Topology result;
  hwloc_topology* topology = nullptr;
  hwloc_check(hwloc_topology_init(&topology), "the node's topology");
  result.topology_.reset(topology);
  // Other ranks of the node may be bound to processors that are closed to this one.
  hwloc_check(hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED),
              "the node's topology");
  hwloc_check(hwloc_topology_load(topology), "the node's topology");
  return result;
}

Topology Topology::synthetic(const std::string& description) {
  Topology result;
  hwloc_topology* topology = nullptr;
  hwloc_check(hwloc_topology_init(&topology), "a topology");
  result.topology_.reset(topology);
  hwloc_check(hwloc_topology_set_synthetic(topology, description.c_str()),
              fmt::format("the topology \"{}\"", description));
  hwloc_check(hwloc_topology_load(topology), fmt::format("the topology \"{}\"", description));
  return result;
}

Locality Topology::locality(const std::vector<int>& processors) const {
  Locality result;
  hwloc_topology* const topology = topology_.get();
  std::set<int> cores;
  const Bitmap set, nodes;
  for (const int processor : processors) {
    const hwloc_obj_t object =
        hwloc_get_pu_obj_by_os_index(topology, static_cast<unsigned>(processor));
    if (object == nullptr) {
      cores.insert(processor);
      continue;
    }
    hwloc_check(hwloc_bitmap_set(set.get(), static_cast<unsigned>(processor)), "a processor");
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, object);
    cores.insert(core == nullptr ? processor : hwloc_bitmap_first(core->cpuset));
    if (hwloc_bitmap_weight(set.get()) > 1) continue;
    result.l2 = cache_of(topology, object, HWLOC_OBJ_L2CACHE);
    result.l3 = cache_of(topology, object, HWLOC_OBJ_L3CACHE);
  }
  result.cores.assign(cores.begin(), cores.end());
  hwloc_check(hwloc_cpuset_to_nodeset(topology, set.get(), nodes.get()), "NUMA nodes");
  result.numa_nodes = nodes.numbers();
  result.memory_domains = count_domains(topology, result.numa_nodes);
  return result;
}

MemoryPolicy Topology::memory_policy() const {
  const Bitmap nodes;
  hwloc_membind_policy_t policy = HWLOC_MEMBIND_DEFAULT;
  // Containers may forbid this query.
  if (hwloc_get_membind(topology_.get(), nodes.get(), &policy,
                        HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) != 0)
    return {};
  hwloc_check(hwloc_bitmap_and(nodes.get(), nodes.get(),
                               hwloc_topology_get_allowed_nodeset(topology_.get())),
              "NUMA nodes");
  return {true, policy == HWLOC_MEMBIND_INTERLEAVE, nodes.numbers()};
}

std::string Topology::cpu_model() const {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology_.get(), HWLOC_OBJ_PACKAGE, 0);
  const auto named = [&](const char* key) -> std::string {
    const char* const value =
        package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, key);
    return value == nullptr ? "" : value;
  };
  if (std::string model = named("CPUModel"); !model.empty()) return model;
  const std::string implementer = named("CPUImplementer");
  return implementer.empty()
             ? ""
             : fmt::format("Arm implementer {} part {}", implementer, named("CPUPart"));
}

int Topology::packages() const { return count(topology_.get(), HWLOC_OBJ_PACKAGE); }
int Topology::cores() const { return count(topology_.get(), HWLOC_OBJ_CORE); }
int Topology::numa_nodes() const { return count(topology_.get(), HWLOC_OBJ_NUMANODE); }

}  // namespace halomesh
