// SPDX-License-Identifier: Apache-2.0
// The cases of a scaling study: see scaling_plan.hpp.
#include "src/apps/scaling/scaling_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include "joined.hpp"
#include "runtime/step/phase_work.hpp"

namespace halomesh {
namespace {

using Integer = std::int64_t;

std::vector<Integer> rank_list(const Options& options, Integer world_ranks) {
  auto ranks = options.get<std::vector<Integer>>("ranks");
  if (ranks.empty()) {
    for (Integer count = 1; count < world_ranks; count *= 2) ranks.push_back(count);
    ranks.push_back(world_ranks);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.back() > world_ranks)
    throw UsageError(
        fmt::format("--ranks {} needs {} ranks, but {} {} started", joined(ranks, ","),
                    ranks.back(), world_ranks, world_ranks == 1 ? "was" : "were"),
        fmt::format("start {} ranks, or leave {} out of --ranks", ranks.back(), ranks.back()));
  return ranks;
}

std::vector<PartGrid> grids_of(Integer count) {
  std::vector<PartGrid> grids;
  for (Integer d = 1; d <= count; ++d)
    for (Integer h = 1; d * h <= count; ++h)
      if (count % (d * h) == 0) grids.push_back({d, h, count / (d * h)});
  return grids;
}

/// The cheapest grid for each number of parts that divides one of `ranks`. On a tie, the one with
/// fewest cuts along w, then h, whose halos are contiguous in memory.
std::vector<PartGrid> best_grids(const Model& model, const std::vector<Integer>& ranks,
                                 Integer max_parts, std::vector<std::string>& left_out) {
  std::vector<PartGrid> best;
  Integer others = 0;
  for (Integer count = 1; count <= std::min(max_parts, ranks.back()); ++count) {
    if (std::none_of(ranks.begin(), ranks.end(), [&](Integer r) { return r % count == 0; }))
      continue;
    std::vector<PartGrid> grids = grids_of(count);
    std::stable_sort(grids.begin(), grids.end(), [](const PartGrid& a, const PartGrid& b) {
      return a.w != b.w ? a.w < b.w : a.h < b.h;
    });
    const auto cheapest =
        std::min_element(grids.begin(), grids.end(), [&](const PartGrid& a, const PartGrid& b) {
          return cost_of_grid(model, a) < cost_of_grid(model, b);
        });
    best.push_back(*cheapest);
    others += std::ssize(grids) - 1;
  }
  if (others > 0)
    left_out.push_back(fmt::format(
        "{} other cuts into as many parts are left out; --parts LIST names meshes", others));
  if (ranks.back() > max_parts)
    left_out.push_back(
        fmt::format("more than {} parts are left out; --max-parts allows more", max_parts));
  return best;
}

std::vector<PartGrid> listed_grids(const std::string& list) {
  std::vector<PartGrid> grids;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) {
    const PartGrid grid = parse_part_grid(word);
    if (std::find(grids.begin(), grids.end(), grid) != grids.end())
      throw UsageError(fmt::format("--parts {} names {} twice", list, word), "give it once");
    grids.push_back(grid);
  }
  if (grids.empty())
    throw UsageError("--parts is empty", "give meshes with commas between them, or auto");
  return grids;
}

Integer strong_batch(const Options& options, const std::vector<Integer>& ranks) {
  if (const auto batch = options.get<Integer>("strong-batch"); batch > 0) return batch;
  Integer least = 1;
  for (const Integer count : ranks) least = least > 1000000 ? least : std::lcm(least, count);
  if (least > 1000000)
    throw UsageError(
        fmt::format("no batch below a million is a multiple of all --ranks {}", joined(ranks, ",")),
        "give --strong-batch B, or numbers of ranks that divide each other");
  return least;
}

/// Adds a case, or marks an equal one that exists.
void add_case(std::vector<ScalingCase>& cases, const ScalingCase& one) {
  for (ScalingCase& each : cases)
    if (each.mesh.parts == one.mesh.parts && each.mesh.replicas == one.mesh.replicas &&
        each.batch == one.batch) {
      each.strong = each.strong || one.strong;
      each.weak = each.weak || one.weak;
      return;
    }
  cases.push_back(one);
}

}  // namespace

std::string ScalingCase::name() const {
  return fmt::format("{} {}, parts {}, batch {}", mesh.ranks(),
                     mesh.ranks() == 1 ? "rank" : "ranks", to_string(mesh.parts), batch);
}

double cost_of_grid(const Model& model, const PartGrid& grid) {
  constexpr double kOperationsPerByte = 100;
  const ModelGeometry geometry = model.geometry(grid);
  const std::vector<DataType> types = model.types();
  double most_flops = 0, most_bytes = 0;
  for (std::int64_t part = 0; part < grid.count(); ++part) {
    most_flops = std::max(most_flops, StepWork(model, geometry, part, 1).flops());
    double bytes = 0;
    // In backward, the gradients of the received values return. The input comes with its halo.
    for (std::size_t t = 1; t < types.size(); ++t)
      bytes += static_cast<double>((geometry.tensors()[t].distribute.received_volume(part) +
                                    geometry.tensors()[t].distribute.sent_volume(part)) *
                                   size_of(types[t]));
    most_bytes = std::max(most_bytes, bytes);
  }
  return most_flops + kOperationsPerByte * most_bytes;
}

ScalingPlan plan_scaling(const Options& options, const Model& model, std::int64_t world_ranks) {
  ScalingPlan plan;
  plan.ranks = rank_list(options, world_ranks);
  const bool both = options.get<bool>("strong") == options.get<bool>("weak");
  const bool strong = both || options.get<bool>("strong"), weak = both || options.get<bool>("weak");
  const auto list = options.get<std::string>("parts");
  const std::vector<PartGrid> grids =
      list == "auto"
          ? best_grids(model, plan.ranks, options.get<Integer>("max-parts"), plan.left_out)
          : listed_grids(list);
  const Integer batch = strong ? strong_batch(options, plan.ranks) : 0;
  for (const Integer ranks : plan.ranks) {
    bool any_mesh = false, any_strong = false;
    for (const PartGrid& grid : grids) {
      if (ranks % grid.count() != 0) continue;
      any_mesh = true;
      const MeshShape mesh = make_mesh(ranks, grid);
      if (strong && batch % mesh.replicas == 0) {
        any_strong = true;
        add_case(plan.cases, {mesh, batch, true, false});
      } else if (strong) {
        plan.left_out.push_back(
            fmt::format("strong: {} ranks as {} are left out: {} replicas do not divide batch {}",
                        ranks, to_string(grid), mesh.replicas, batch));
      }
      if (weak)
        add_case(plan.cases,
                 {mesh, mesh.replicas * options.get<Integer>("weak-batch"), false, true});
    }
    if (!any_mesh)
      throw UsageError(fmt::format("no mesh of --parts {} fits {} {}", list, ranks,
                                   ranks == 1 ? "rank" : "ranks"),
                       fmt::format("add a mesh whose parts divide {}, e.g. 1x1x1, or leave {} out "
                                   "of --ranks",
                                   ranks, ranks));
    if (strong && !any_strong)
      throw UsageError(
          fmt::format("no mesh of {} ranks has replicas that divide the batch {}", ranks, batch),
          fmt::format("give --strong-batch {} or a multiple", std::lcm(batch, ranks)));
  }
  return plan;
}

}  // namespace halomesh
