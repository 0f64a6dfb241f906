// SPDX-License-Identifier: Apache-2.0
// Checks a requested job against a site: see jobscript_plan.hpp.
#include "src/apps/plan/jobscript_plan.hpp"

#include <algorithm>
#include <vector>

#include "counted.hpp"
#include "error.hpp"
#include "src/apps/options/nearest.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kGib = std::int64_t{1} << 30;

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// Chooses the ranks and threads of a node.
void plan_node(const SiteProfile& site, const JobRequest& request, JobPlan& plan) {
  const std::int64_t cores = request.cores > 0 ? request.cores : site.cores;
  if (site.cores > 0 && request.cores > site.cores)
    throw UsageError(
        fmt::format("--cores {}: a node of {} has {}", request.cores, site.name, site.cores),
        fmt::format("give at most {}", site.cores));
  if (cores == 0 && (request.ranks_per_node == 0 || request.threads == 0))
    throw UsageError(
        fmt::format("the profile {} does not say how many cores a node has", site.name),
        "give --cores N, or both --ranks-per-node N and --threads N");
  const std::int64_t usable = cores - site.reserved_cores;
  const std::int64_t by_default = std::max<std::int64_t>(std::min(site.numa_domains, usable), 1);
  plan.ranks_per_node = request.ranks_per_node > 0 ? request.ranks_per_node : by_default;
  plan.threads = request.threads > 0 ? request.threads
                                     : std::max<std::int64_t>(usable / plan.ranks_per_node, 1);
  if (cores > 0 && plan.ranks_per_node * plan.threads > usable)
    throw UsageError(fmt::format("{} x {} per node are more than the {} cores that a "
                                 "job may use on a node of {}",
                                 counted(plan.ranks_per_node, "rank"),
                                 counted(plan.threads, "thread"), usable, site.name),
                     fmt::format("use --ranks-per-node {} and --threads {}, or fewer",
                                 std::min(plan.ranks_per_node, usable),
                                 std::max<std::int64_t>(usable / plan.ranks_per_node, 1)));
  plan.reserved_cores = site.reserved_cores;
  plan.cpus_per_rank = plan.threads * site.threads_per_core;
  if (cores > 0) {
    // Spare cores go to the ranks as well, for the threads of MPI and of the input.
    plan.cpus_per_rank = usable / plan.ranks_per_node * site.threads_per_core;
    if (site.numa_domains > 0)
      plan.within_domain = plan.threads <= std::max<std::int64_t>(cores / site.numa_domains, 1);
  }
}

std::string limits_of(const Queue& queue) {
  return fmt::format("{} ({} to {} nodes, {})", queue.name, queue.min_nodes, queue.max_nodes,
                     to_duration_text(queue.seconds));
}

std::string limits_of(const std::vector<Queue>& queues) {
  std::string all;
  for (const Queue& queue : queues) all += (all.empty() ? "" : ", ") + limits_of(queue);
  return all;
}

/// The queue for the job; empty if the site's queues are unknown.
std::optional<Queue> find_queue(const SiteProfile& site, const JobRequest& request) {
  if (site.queues.empty()) return std::nullopt;
  std::vector<Queue> candidates;
  std::vector<std::string> names;
  for (const Queue& queue : site.queues) {
    names.push_back(queue.name);
    if (request.queue.empty() || queue.name == request.queue) candidates.push_back(queue);
  }
  if (candidates.empty())
    throw UsageError(fmt::format("--queue {}: {} has no such queue", request.queue, site.name),
                     fmt::format("did you mean {}? It has: {}", nearest(request.queue, names),
                                 limits_of(site.queues)));
  for (const Queue& queue : candidates)
    if (request.nodes >= queue.min_nodes && request.nodes <= queue.max_nodes &&
        request.seconds <= queue.seconds)
      return queue;
  throw UsageError(fmt::format("{} nodes for {} are not within {}", request.nodes,
                               to_duration_text(request.seconds),
                               request.queue.empty() ? fmt::format("any queue of {}", site.name)
                                                     : "--queue " + request.queue),
                   fmt::format("keep to the limits of {}", limits_of(candidates)));
}

void check_size(const SiteProfile& site, const JobRequest& request) {
  if (site.nodes > 0 && request.nodes > site.nodes)
    throw UsageError(fmt::format("--nodes {}: {} has {}{}", request.nodes, site.name, site.nodes,
                                 site.nodes == 1 ? " node" : " nodes"),
                     fmt::format("ask for at most {}", site.nodes));
  if (request.seconds <= site.end_margin_s)
    throw UsageError(
        fmt::format(
            "--time {} leaves no time for training besides the {} s that a clean stop may take",
            to_duration_text(request.seconds), site.end_margin_s),
        fmt::format("ask for more than {}", to_duration_text(site.end_margin_s)));
}

/// Chooses the placement of the nodes: PJM's shape and allocation mode.
void plan_shape(const SiteProfile& site, const JobRequest& request,
                const std::optional<Queue>& queue, JobPlan& plan) {
  if (site.scheduler != Scheduler::kPjm) {
    if (!request.shape.empty() || !request.allocation.empty() || request.rank_map)
      throw UsageError(
          fmt::format("--shape, --allocation and --rank-map have no meaning on {}", site.name),
          "leave them out: only PJM lets a job choose its nodes");
    return;
  }
  const std::vector<std::string> modes = queue && !queue->modes.empty()
                                             ? queue->modes
                                             : std::vector<std::string>{"noncont", "mesh", "torus"};
  plan.allocation = !request.allocation.empty() ? request.allocation
                    : request.rank_map          ? "torus"
                                                : modes.front();
  if (!contains(modes, plan.allocation))
    throw UsageError(fmt::format("--allocation {} is not possible{}", plan.allocation,
                                 queue ? " in the queue " + queue->name : ""),
                     fmt::format("use {}", nearest(plan.allocation, modes)));
  plan.shape = request.shape;
  if (plan.shape.empty() && plan.allocation != "noncont")
    plan.shape = choose_node_shape(request.nodes, site.machine_shape);
  if (!plan.shape.empty() && node_count(plan.shape) != request.nodes)
    throw UsageError(fmt::format("--shape {} holds {} nodes, not the {} of --nodes",
                                 to_string(plan.shape), node_count(plan.shape), request.nodes),
                     fmt::format("e.g. --shape {}",
                                 to_string(choose_node_shape(request.nodes, site.machine_shape))));
  if (!fits_into(plan.shape, site.machine_shape))
    throw UsageError(fmt::format("--shape {} does not fit into the {} nodes of {}",
                                 to_string(plan.shape), to_string(site.machine_shape), site.name),
                     fmt::format("e.g. --shape {}",
                                 to_string(choose_node_shape(request.nodes, site.machine_shape))));
}

void plan_staging(const SiteProfile& site, const JobRequest& request, JobPlan& plan) {
  if (request.stage_gib == 0) return;
  if (site.stage == StageKind::kNone)
    throw UsageError(fmt::format("--stage-gib: no node-local space is known on {}", site.name),
                     "leave it out, or name a directory that every node has: --stage-dir DIR");
  const bool shared = site.stage == StageKind::kDatawarp;
  const std::int64_t limit = site.stage_limit_bytes / (shared ? request.nodes : 1);
  if (site.stage_limit_bytes > 0 && request.stage_gib > limit / kGib)
    throw UsageError(
        fmt::format("--stage-gib {}: {} gives at most {} bytes {}", request.stage_gib, site.name,
                    site.stage_limit_bytes, shared ? "per job" : "per node"),
        limit >= kGib ? fmt::format("ask for at most {} GiB per node: more nodes or more parts "
                                    "leave less data to each",
                                    limit / kGib)
                      : "use fewer nodes, or no staging");
  plan.stage_bytes = request.stage_gib * kGib * (shared ? request.nodes : 1);
}

void plan_launcher(const SiteProfile& site, const JobRequest& request, JobPlan& plan) {
  plan.launcher = request.launcher.empty() ? site.launcher : request.launcher;
  const std::vector<std::string> possible = site.scheduler == Scheduler::kSlurm
                                                ? std::vector<std::string>{"srun", "mpirun"}
                                                : std::vector<std::string>{site.launcher};
  if (!contains(possible, plan.launcher))
    throw UsageError(
        fmt::format("--launcher {} is not possible on {}", plan.launcher, site.name),
        fmt::format("use {}{}", possible.front(), possible.size() > 1 ? " or mpirun" : ""));
  if (plan.launcher == "srun")
    plan.mpi_plugin = request.mpi_plugin.empty() ? site.mpi_plugin : request.mpi_plugin;
  else if (!request.mpi_plugin.empty())
    throw UsageError("--mpi-plugin is an option of srun, which does not start this job",
                     "leave it out, or use --launcher srun on a Slurm site");
}

}  // namespace

JobPlan plan_job(const SiteProfile& site, const JobRequest& request) {
  JobPlan plan;
  plan.nodes = request.nodes;
  check_size(site, request);
  plan_node(site, request, plan);
  const std::int64_t ranks = request.nodes * plan.ranks_per_node;
  if (ranks % request.instances != 0)
    throw UsageError(
        fmt::format("--instances {} does not divide the {} ranks of the job", request.instances,
                    ranks),
        fmt::format("use --nodes {}, or a number that divides the ranks", request.instances));
  const MeshShape of_instance = make_mesh(ranks / request.instances, request.parts);
  if (request.batch > 0) local_batch(request.batch, of_instance);
  plan.mesh = make_mesh(ranks, request.parts);
  const std::optional<Queue> queue = find_queue(site, request);
  plan.queue = queue ? queue->name : request.queue;
  plan_shape(site, request, queue, plan);
  if (request.rank_map) plan.rank_map = make_rank_map(plan.mesh, plan.shape, plan.ranks_per_node);
  plan_staging(site, request, plan);
  plan_launcher(site, request, plan);
  return plan;
}

}  // namespace halomesh
