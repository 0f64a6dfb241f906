// SPDX-License-Identifier: Apache-2.0
// All meshes of a job: see mesh_search.hpp.
#include "src/apps/forecast/mesh_search.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "error.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kVariedMeshes = 8;

bool before(const MeshForecast& a, const MeshForecast& b) {
  return std::tuple(!a.fits, a.run.total_s.mid) < std::tuple(!b.fits, b.run.total_s.mid);
}

std::string batches_near(std::int64_t batch, std::int64_t replicas) {
  const std::int64_t below = batch / replicas * replicas;
  return below > 0 ? fmt::format("--batch {} or {}", below, below + replicas)
                   : fmt::format("--batch {}", replicas);
}

}  // namespace

std::string to_string(const MeshShape& mesh) {
  return fmt::format("{} x {}", to_string(mesh.parts), mesh.replicas);
}

MeshSearch::MeshSearch(const Machine& machine, const Model& model, const Job& job)
    : machine_(machine), model_(model), job_(job) {
  const auto most = static_cast<std::int64_t>(machine.value("nodes"));
  if (job.nodes > most)
    throw UsageError(
        fmt::format("{} has {} nodes, not {}", machine.name, most, job.nodes),
        fmt::format("give --nodes {} or less, or a machine file with more nodes", most));
  if (job.nodes > 1 && machine.interconnect == Interconnect::kNone)
    throw UsageError(fmt::format("{} has no network between nodes, but the job has {} nodes",
                                 machine.name, job.nodes),
                     "calibrate on two nodes or more, or give --nodes 1");
  job_.options.cache = &cache_;
  find_grids();
}

std::vector<PartGrid> MeshSearch::grids_of(std::int64_t parts) const {
  const Shape& input = model_.input();
  std::vector<PartGrid> grids;
  for (std::int64_t d = 1; d <= parts; ++d)
    for (std::int64_t h = 1; parts % d == 0 && h <= parts / d; ++h) {
      if (parts / d % h != 0) continue;
      const PartGrid grid{d, h, parts / d / h};
      if (grid.d <= input.d && grid.h <= input.h && grid.w <= input.w) grids.push_back(grid);
    }
  return grids;
}

void MeshSearch::find_grids() {
  const std::int64_t ranks = job_.nodes * machine_.ranks_per_node();
  for (std::int64_t parts = 1; parts <= std::min(ranks, job_.max_parts); ++parts) {
    if (ranks % parts != 0) continue;
    const std::int64_t replicas = ranks / parts;
    if (job_.work.batch % replicas != 0) {
      hints_.push_back(
          fmt::format("{} part{} per sample: {} replicas do not divide batch {}; use {}", parts,
                      parts == 1 ? "" : "s", replicas, job_.work.batch,
                      batches_near(job_.work.batch, replicas)));
      continue;
    }
    const std::vector<PartGrid> grids = grids_of(parts);
    grids_.insert(grids_.end(), grids.begin(), grids.end());
  }
  if (grids_.empty())
    throw UsageError(
        fmt::format("{} ranks and batch {} have no mesh of at most {} parts per sample", ranks,
                    job_.work.batch, job_.max_parts),
        (hints_.empty() ? std::string("give fewer nodes") : hints_.back()) +
            (fewer_nodes().empty() ? "" : ", or " + fewer_nodes()));
  if (const std::string fewer = fewer_nodes(); !fewer.empty())
    hints_.push_back(fmt::format("meshes of other numbers of parts: {}", fewer));
}

// A suggestion of a few nodes fewer if `nodes` has few divisors; else empty.
std::string MeshSearch::fewer_nodes() const {
  const auto numbers_of_parts = [&](std::int64_t nodes) {
    const std::int64_t ranks = nodes * machine_.ranks_per_node();
    std::int64_t count = 0;
    for (std::int64_t parts = 1; parts <= std::min(ranks, job_.max_parts); ++parts)
      count += ranks % parts == 0 ? 1 : 0;
    return count;
  };
  const std::int64_t now = numbers_of_parts(job_.nodes);
  constexpr std::int64_t kFew = 3, kShare = 50;  // up to 2 % of the nodes
  if (now > kFew) return {};
  for (std::int64_t nodes = job_.nodes - 1; nodes >= job_.nodes - job_.nodes / kShare; --nodes)
    if (const std::int64_t count = numbers_of_parts(nodes); count > now + kFew)
      return fmt::format("--nodes {} can be cut into {} numbers of parts, {} only into {}", nodes,
                         count, job_.nodes, now);
  return {};
}

const ModelGeometry& MeshSearch::geometry(const PartGrid& grid) const {
  auto& known = geometries_[to_string(grid)];
  if (!known) known = std::make_unique<ModelGeometry>(model_.geometry(grid));
  return *known;
}

MemoryNeed MeshSearch::memory_need(const MeshForecast& f) const {
  if (!job_.memory) return {};
  const auto [at, is_new] = memory_.try_emplace(to_string(f.mesh.parts));
  if (is_new) at->second = job_.memory(machine_, geometry(f.mesh.parts), f.mesh, f.local_batch);
  return at->second;
}

void MeshSearch::fit_memory(const Machine& machine, const MemoryNeed& need, MeshForecast& f) {
  const double memory = machine.value("memory-gib") * 0x1p30;
  const auto of_rank =
      static_cast<std::int64_t>(memory / static_cast<double>(machine.ranks_per_node()));
  f.recomputes = memory > 0 && should_recompute(need, of_rank);
  f.memory_bytes = f.recomputes ? need.recomputed : need.kept;
  f.fits = memory <= 0 || f.memory_bytes <= of_rank;
}

std::optional<LeastNodes> MeshSearch::least_nodes() const {
  if (!job_.memory || machine_.value("memory-gib") <= 0) return std::nullopt;
  const std::int64_t of_node = machine_.ranks_per_node();
  const auto fitting = [&](std::int64_t parts) -> std::optional<LeastNodes> {
    std::vector<PartGrid> grids = grids_of(parts);
    std::reverse(grids.begin(), grids.end());  // depth is cut first
    for (const PartGrid& grid : grids) {
      MeshForecast f;
      f.mesh = {std::max<std::int64_t>(job_.nodes * of_node / parts, 1), grid};
      fit_memory(machine_, job_.memory(machine_, model_.geometry(grid), f.mesh, 1), f);
      if (f.fits) return LeastNodes{(parts + of_node - 1) / of_node, grid, f.memory_bytes};
    }
    return std::nullopt;
  };
  // Within a node, samples side by side need more than the parts of one.
  for (std::int64_t parts = std::min(of_node, job_.max_parts); parts >= 1; --parts)
    if (const auto least = of_node % parts == 0 ? fitting(parts) : std::nullopt) return least;
  for (std::int64_t parts = 2 * of_node; parts <= job_.max_parts; parts += of_node)
    if (const auto least = fitting(parts)) return least;
  return std::nullopt;
}

// Samples per second and rank for one sample per rank, on a node whose ranks all compute.
double MeshSearch::base_rate(const Machine& machine) const {
  return 1 / forecast_step(machine, model_, geometry({}), {1, {}}, 1, job_.options).step_s;
}

std::vector<MeshForecast> MeshSearch::forecasts_of(const Machine& machine,
                                                   const std::vector<PartGrid>& grids,
                                                   bool keep) const {
  const std::int64_t ranks = job_.nodes * machine.ranks_per_node();
  const double base = base_rate(machine);
  std::vector<MeshForecast> all;
  for (const PartGrid& grid : grids) {
    if (job_.progress) job_.progress(made_++);
    MeshForecast f;
    f.mesh = {ranks / grid.count(), grid};
    f.local_batch = job_.work.batch / f.mesh.replicas;
    fit_memory(machine, memory_need(f), f);
    ForecastOptions options = job_.options;
    if (f.recomputes) options.memory = MemoryUse::kRecomputed;
    f.step = forecast_step(machine, model_, geometry(grid), f.mesh, f.local_batch, options);
    options.training = false;
    f.evaluation = forecast_step(machine, model_, geometry(grid), f.mesh, f.local_batch, options);
    f.run = forecast_run(machine, job_.nodes, job_.work, f.step, f.evaluation);
    f.efficiency =
        static_cast<double>(job_.work.batch) / static_cast<double>(ranks) / f.step.step_s / base;
    all.push_back(f);
    if (keep) continue;
    cache_.forget_meshes();
    geometries_.clear();
  }
  std::stable_sort(all.begin(), all.end(), before);
  return all;
}

std::vector<Sensitivity> MeshSearch::sensitivities(const std::vector<MeshForecast>& ranked) const {
  std::vector<PartGrid> grids;
  // Cuts of different sizes are kept, because a changed machine may prefer another.
  for (const MeshForecast& f : ranked) {
    const bool known = std::any_of(grids.begin(), grids.end(), [&](const PartGrid& grid) {
      return grid.count() == f.mesh.parts.count();
    });
    if (grids.size() < kVariedMeshes && f.fits && !known) grids.push_back(f.mesh.parts);
  }
  std::vector<Sensitivity> all;
  if (grids.empty()) return all;
  const MeshForecast& best = ranked.front();
  for (const NumberRule& rule : number_rules()) {
    const auto known =
        std::find_if(machine_.numbers.begin(), machine_.numbers.end(),
                     [&](const MachineNumber& number) { return number.name == rule.name; });
    const bool assumed =
        known == machine_.numbers.end() ? rule.fallback > 0 : known->origin == Origin::kAssumed;
    if (!assumed || std::string(rule.name) == "nodes" || std::string(rule.name) == "ranks-per-node")
      continue;
    Sensitivity s{rule.name, machine_.value(rule.name), 0, 0, {}, {}};
    const auto vary = [&](double factor, double& change, std::string& flipped) {
      const auto varied =
          forecasts_of(with_number_scaled(machine_, rule.name, factor), grids, true);
      const auto same = std::find_if(varied.begin(), varied.end(), [&](const MeshForecast& f) {
        return f.mesh.parts == best.mesh.parts;
      });
      change = same->run.total_s.mid / best.run.total_s.mid - 1;
      // Meshes whose times differ by less count as equal.
      if (varied.front().run.total_s.mid < (1 - kTie) * same->run.total_s.mid)
        flipped = to_string(varied.front().mesh);
    };
    vary(0.75, s.change_low, s.best_low);
    vary(1.25, s.change_high, s.best_high);
    all.push_back(s);
  }
  const auto weight = [](const Sensitivity& s) {
    return std::max(std::abs(s.change_low), std::abs(s.change_high));
  };
  std::stable_sort(all.begin(), all.end(), [&](const Sensitivity& a, const Sensitivity& b) {
    return weight(a) > weight(b);
  });
  return all;
}

std::vector<std::string> reasons(const MeshForecast& best, const MeshForecast& other) {
  struct Term {
    const char* name;
    double StepForecast::*seconds;
  };
  static constexpr Term kTerms[] = {{"compute", &StepForecast::compute_s},
                                    {"halos", &StepForecast::halo_s},
                                    {"gathers", &StepForecast::gather_s},
                                    {"the sum of gradients", &StepForecast::reduction_s},
                                    {"waiting for the slowest rank", &StepForecast::straggler_s},
                                    {"input", &StepForecast::input_s}};
  std::vector<std::pair<double, std::string>> saved;
  for (const Term& term : kTerms) {
    const double difference = other.step.*term.seconds - best.step.*term.seconds;
    if (std::abs(difference) > 0.001 * best.step.step_s)
      saved.emplace_back(difference,
                         fmt::format("{} {:.2f} ms {}", term.name, std::abs(difference) * 1e3,
                                     difference > 0 ? "less" : "more"));
  }
  std::stable_sort(saved.begin(), saved.end(), [](const auto& a, const auto& b) {
    return std::abs(a.first) > std::abs(b.first);
  });
  std::string sentence =
      fmt::format("{} against {}: ", to_string(best.mesh), to_string(other.mesh));
  for (std::size_t i = 0; i < saved.size(); ++i) sentence += (i > 0 ? ", " : "") + saved[i].second;
  if (saved.empty()) sentence += "the same in every term, so evaluations and batches differ";
  std::vector<std::string> sentences{sentence + "."};
  const StepForecast& step = best.step;
  const double communication = step.halo_s + step.gather_s + step.reduction_s;
  sentences.push_back(fmt::format(
      "Its step computes for {:.0f} % of the time, communicates for {:.0f} % and waits for the "
      "slowest rank for {:.0f} %.",
      100 * step.compute_s / step.step_s, 100 * communication / step.step_s,
      100 * step.straggler_s / step.step_s));
  return sentences;
}

}  // namespace halomesh
