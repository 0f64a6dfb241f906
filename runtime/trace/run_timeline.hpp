// SPDX-License-Identifier: Apache-2.0
// The trace of a run: records a window of its steps on all ranks and writes it when the window
// ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "runtime/mpi/clock_sync.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/trace/traced_ranks.hpp"
#include "timeline.hpp"
#include "trace.hpp"

namespace halomesh {

struct TraceRequest {
  std::filesystem::path file;
  TraceSteps steps;
  std::vector<int> ranks;            ///< ascending; empty: see default_trace_ranks()
  std::int64_t samples_of_step = 0;  ///< the global batch
  std::string program, version;      ///< noted in the trace
};

/// What a trace has become; the same on every rank.
struct TraceReport {
  std::string summary;                ///< a line
  std::vector<std::string> warnings;  ///< of what is missing
};

/// Ranks of a node share a clock; clocks of nodes are compared when the object is made, when the
/// window begins and when it ends.
class RunTimeline {
 public:
  /// `world`: the ranks of `mesh`, which must outlive this object. Collective over it.
  RunTimeline(const Comm& world, const MeshShape& mesh, TraceRequest request);
  /// For tests: `node` are the ranks that share the clock of this rank.
  RunTimeline(const Comm& world, const MeshShape& mesh, TraceRequest request, Comm node,
              ClockSync::Clock clock);

  /// Where this rank's events are recorded.
  Timeline& recorder() { return recorder_; }

  /// Call them around every step. `number`: of the step, counted from the network's first, from 1.
  /// after_step() writes the file after the window's last step. Collective when the window begins
  /// or ends.
  void before_step(std::int64_t number);
  std::optional<TraceReport> after_step();
  /// Call it at the end of a run: writes what there is, unless after_step() has or no step was
  /// begun. Collective.
  std::optional<TraceReport> finish();

 private:
  TraceReport write();
  bool recorded_here() const;
  void add_slowest(std::vector<int>& ranks) const;
  std::string opening(const std::vector<int>& ranks, std::int64_t origin_ns,
                      std::int64_t dropped) const;
  TraceReport report(const std::vector<int>& ranks, std::int64_t bytes, std::int64_t dropped) const;

  const Comm& world_;
  MeshShape mesh_;
  TraceRequest request_;
  ClockSync::Clock clock_;
  ClockSync sync_;
  Timeline recorder_;
  std::int64_t run_steps_ = 0;   // begun in this run
  std::int64_t first_step_ = 0;  // number of the window's first
  std::int64_t steps_ = 0;       // completed in the window
  bool written_ = false;
};

}  // namespace halomesh
