// SPDX-License-Identifier: Apache-2.0
// Checks a requested job against the limits of a site, before any script is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "partition/mesh_shape.hpp"
#include "src/apps/plan/rank_map.hpp"
#include "src/apps/plan/site_profile.hpp"

namespace halomesh {

/// The requested job; 0 or empty stands for the default of the site.
struct JobRequest {
  std::int64_t nodes = 1, ranks_per_node = 0, threads = 0, cores = 0;
  std::int64_t seconds = 0;    ///< wall time
  std::int64_t stage_gib = 0;  ///< node-local space per node; 0: none
  std::string queue, allocation, launcher, mpi_plugin;
  NodeShape shape;
  bool rank_map = false;
  std::int64_t instances = 1;  ///< models, each on an equal share of the ranks
  PartGrid parts;              ///< parts of one model
  std::int64_t batch = 0;      ///< batch of one model; 0: not checked
};

/// The job as it will run.
struct JobPlan {
  MeshShape mesh;
  std::int64_t nodes = 1, ranks_per_node = 1, threads = 1, reserved_cores = 0;
  std::int64_t cpus_per_rank = 1;  ///< as the scheduler counts them
  std::optional<bool>
      within_domain;  ///< whether each rank stays within one NUMA domain; empty: unknown
  std::string queue, allocation, launcher, mpi_plugin;
  NodeShape shape;  ///< empty: any nodes
  std::optional<RankMap> rank_map;
  std::int64_t stage_bytes = 0;  ///< per node; in total for a burst buffer
};

/// Checks the job and completes it. Throws UsageError, naming the limit and a value within it: more
/// ranks or threads than cores, more nodes than the site has, instances, parts or batch that do not
/// divide, no queue for these nodes and this time, unknown queue, launcher or allocation mode, a
/// shape that does not match the nodes or does not fit into the machine, too much staging space,
/// and less time than a clean stop needs.
JobPlan plan_job(const SiteProfile& site, const JobRequest& request);

}  // namespace halomesh
