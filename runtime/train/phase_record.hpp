// SPDX-License-Identifier: Apache-2.0
// The phases of a running training: since the last summary, and since the start.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/log/phase_summary.hpp"
#include "runtime/log/step_counts.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/phase_reduction.hpp"
#include "trace.hpp"

namespace halomesh {

/// Records every step of a run on one rank. Costs a few microseconds per step, no communication
/// and, after the first step, no allocation. Summaries are collective over mesh.world().
class PhaseRecord {
 public:
  /// Collective. `mesh` must outlive this object.
  PhaseRecord(const ProcessMesh& mesh, const ModelGeometry& geometry, std::int64_t batch);

  /// The trace to pass to the components of a step; it holds the intervals of the current step.
  Trace* trace() { return &trace_; }
  /// Starts counting here: counts since the last note() belong to no step.
  void resume(const StepCounts& now) { noted_ = now; }
  /// Attributes the counts since the last call to the steps since then.
  void note(const StepCounts& now);
  /// Adds the trace's intervals, which end with that of the whole step, and clears it. A step with
  /// more intervals than the trace holds counts as the mean of the others.
  void end_step();

  /// The number of steps since the last take().
  std::int64_t steps() const { return recent_.steps; }
  /// The summary of these steps, of which `step` is the last. Collective.
  PhaseSummary take(std::int64_t epoch, std::int64_t step);
  /// Whether take_layers() is due: after the first take(), the second, the fourth, the eighth and
  /// so on, so that a long run gets few of these large summaries.
  bool layers_due() const { return std::has_single_bit(takes_); }
  /// The number of steps that take() has summarized since the last take_layers().
  std::int64_t steps_of_layers() const { return by_layer_.steps; }
  /// The summary of these steps. Collective.
  PhaseSummary take_layers(std::int64_t epoch, std::int64_t step);
  /// The table of all steps of this run; "" when there are none. Collective.
  std::string table() const;

 private:
  struct Sums {
    PhaseTimes times;
    std::int64_t steps = 0, complete = 0;
    StepCounts counts;
  };
  PhaseSummary summary(const Sums& sums) const;
  PhaseSummary take(Sums& sums, std::int64_t epoch, std::int64_t step) const;
  static void merge(const Sums& from, Sums& into);

  const ProcessMesh& mesh_;
  std::int64_t batch_;
  std::vector<std::string> layers_;
  bool many_nodes_;
  Trace trace_;
  StepCounts noted_;
  Sums recent_, before_;  // since the last take(), and before it
  Sums by_layer_;         // the part of before_ since the last take_layers()
  std::uint64_t takes_ = 0;
};

}  // namespace halomesh
