// Checks what a user asks of a site against what the site has, before any script is written.
// Knows nothing of directives or templates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "partition/mesh_shape.hpp"
#include "partition/rank_map.hpp"
#include "src/apps/site_profile.hpp"

namespace halomesh {

/// What is asked for; 0 or empty: the site's own.
struct JobRequest {
  std::int64_t nodes = 1, ranks_per_node = 0, threads = 0, cores = 0;
  std::int64_t seconds = 0;    ///< of wall time
  std::int64_t stage_gib = 0;  ///< node-local space, a node; 0: none
  std::string queue, allocation, launcher, mpi_plugin;
  NodeShape shape;
  bool rank_map = false;
  PartGrid parts;
  std::int64_t batch = 0;  ///< 0: not checked
};

/// What the job gets.
struct JobPlan {
  MeshShape mesh;
  std::int64_t nodes = 1, ranks_per_node = 1, threads = 1, reserved_cores = 0;
  std::int64_t cpus_per_rank = 1;     ///< as the scheduler counts
  std::optional<bool> within_domain;  ///< each rank keeps to one NUMA domain; none: unknown
  std::string queue, allocation, launcher, mpi_plugin;
  NodeShape shape;  ///< empty: a number of nodes, wherever they are
  std::optional<RankMap> rank_map;
  std::int64_t stage_bytes = 0;  ///< a node; of a burst buffer: in all
};

/// Throws UsageError, naming the limit and what would do: more ranks or threads than cores, more
/// nodes than the site has, parts or batch that do not divide, no queue that holds nodes and time,
/// unknown queue, launcher or allocation mode, a shape that does not hold the nodes or does not fit
/// into the machine, too much staging space, and less time than a clean stop needs.
JobPlan plan_job(const SiteProfile& site, const JobRequest& request);

}  // namespace halomesh
