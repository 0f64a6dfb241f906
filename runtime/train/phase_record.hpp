// SPDX-License-Identifier: Apache-2.0
// The phases of a run while it goes on: since the last summary, and since its start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/log/phase_summary.hpp"
#include "runtime/log/step_counts.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/step/phase_reduction.hpp"
#include "trace.hpp"

namespace halomesh {

/// Records every step of a run on one rank; costs a few microseconds per step, without
/// communication and, after the first, without allocating. Summaries are collective over
/// mesh.world().
class PhaseRecord {
 public:
  /// Collective. `mesh` must outlive this object.
  PhaseRecord(const ProcessMesh& mesh, const ModelGeometry& geometry, std::int64_t batch);

  /// Give it to what steps consist of; it holds the intervals of the current step.
  Trace* trace() { return &trace_; }
  /// Counts from here: what was counted since the last note() belongs to no step.
  void resume(const StepCounts& now) { noted_ = now; }
  /// The steps since the last call have moved what was counted since then.
  void note(const StepCounts& now);
  /// Adds the intervals of the trace, which end with that of the whole step, and clears it. A step
  /// of more intervals than the trace holds counts as the mean of the others.
  void end_step();

  /// Steps since the last take().
  std::int64_t steps() const { return recent_.steps; }
  /// The summary of these steps, of which `step` is the last. Collective.
  PhaseSummary take(std::int64_t epoch, std::int64_t step);
  /// The table of all steps of this run; "" when there are none. Collective.
  std::string table() const;

 private:
  struct Sums {
    PhaseTimes times;
    std::int64_t steps = 0, complete = 0;
    StepCounts counts;
  };
  PhaseSummary summary(const Sums& sums) const;
  static void merge(const Sums& from, Sums& into);

  const ProcessMesh& mesh_;
  std::int64_t batch_;
  std::vector<std::string> layers_;
  bool many_nodes_;
  Trace trace_;
  StepCounts noted_;
  Sums recent_, before_;  // since the last take(), and until then
};

}  // namespace halomesh
