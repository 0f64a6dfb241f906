// SPDX-License-Identifier: Apache-2.0
// The phases of a run: see phase_record.hpp.
#include "runtime/train/phase_record.hpp"

#include <algorithm>

namespace halomesh {
namespace {

// Reserves address space; only used pages take memory.
constexpr std::size_t kEventsOfAStep = 1 << 16;

bool has_many_nodes(const Comm& world) {
  return world.max(std::int64_t{world.node().size() < world.size() ? 1 : 0}) > 0;
}

}  // namespace

PhaseRecord::PhaseRecord(const ProcessMesh& mesh, const ModelGeometry& geometry, std::int64_t batch)
    : mesh_(mesh),
      batch_(batch),
      layers_(phase_layers(geometry)),
      many_nodes_(has_many_nodes(mesh.world())),
      trace_(kEventsOfAStep) {}

void PhaseRecord::note(const StepCounts& now) {
  recent_.counts += now - noted_;
  noted_ = now;
}

void PhaseRecord::end_step() {
  ++recent_.steps;
  if (!trace_.events().empty() && trace_.events().back().phase == Phase::kStep) {
    recent_.times.add(trace_.events());
    ++recent_.complete;
  }
  trace_.clear();
}

void PhaseRecord::merge(const Sums& from, Sums& into) {
  into.times.add(from.times);
  into.steps += from.steps;
  into.complete += from.complete;
  into.counts += from.counts;
}

PhaseSummary PhaseRecord::summary(const Sums& sums) const {
  PhaseSummary summary = summarize_phases(mesh_.world(), layers_, sums.times,
                                          {sums.steps, sums.complete}, sums.counts);
  summary.mesh = mesh_.shape();
  summary.batch = batch_;
  return summary;
}

PhaseSummary PhaseRecord::take(Sums& sums, std::int64_t epoch, std::int64_t step) const {
  PhaseSummary taken = summary(sums);
  taken.epoch = epoch;
  taken.step = step;
  sums.times.reset();
  sums.steps = sums.complete = 0;
  sums.counts = {};
  return taken;
}

PhaseSummary PhaseRecord::take(std::int64_t epoch, std::int64_t step) {
  merge(recent_, before_);
  merge(recent_, by_layer_);
  ++takes_;
  return take(recent_, epoch, step);
}

PhaseSummary PhaseRecord::take_layers(std::int64_t epoch, std::int64_t step) {
  return take(by_layer_, epoch, step);
}

std::string PhaseRecord::table() const {
  Sums all = before_;
  merge(recent_, all);
  if (all.steps == 0) return {};
  const PhaseSummary s = summary(all);
  std::array<std::string, kPhaseKinds + 1> hosts;
  if (many_nodes_) {
    std::vector<int> ranks;
    for (const RankSpread& kind : s.kinds) ranks.push_back(kind.max_rank);
    ranks.push_back(s.step_s.max_rank);
    const std::vector<std::string> names = hosts_of(mesh_.world(), ranks);
    std::copy(names.begin(), names.end(), hosts.begin());
  }
  return phase_table(s, hosts);
}

}  // namespace halomesh
