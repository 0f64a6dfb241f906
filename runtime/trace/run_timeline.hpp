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
  std::vector<int> ranks;            ///< ascending; empty: default_trace_ranks()
  std::int64_t samples_of_step = 0;  ///< the global batch
  std::string program, version;      ///< noted in the trace
};

/// The outcome of writing a trace; the same on every rank.
struct TraceReport {
  std::string summary;                ///< one line
  std::vector<std::string> warnings;  ///< about missing data
};

/// Records the trace of a run. Ranks of a node share a clock; the clocks of nodes are compared at
/// construction and at both ends of the window.
class RunTimeline {
 public:
  /// `world` has the ranks of `mesh`, which must outlive this object. Collective over it.
  RunTimeline(const Comm& world, const MeshShape& mesh, TraceRequest request);
  /// For tests: `node` has the ranks that share this rank's clock.
  RunTimeline(const Comm& world, const MeshShape& mesh, TraceRequest request, Comm node,
              ClockSync::Clock clock);

  /// The recorder of this rank's events.
  Timeline& recorder() { return recorder_; }

  /// Call these around every step. `number` is the step's, counted from 1 at the network's first.
  /// after_step() writes the file after the window's last step. Collective when the window begins
  /// or ends.
  void before_step(std::int64_t number);
  std::optional<TraceReport> after_step();
  /// Writes the recorded events, unless after_step() has done so or no step was begun. Call it at
  /// the end of a run. Collective.
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
  std::int64_t run_steps_ = 0;   // steps begun in this run
  std::int64_t first_step_ = 0;  // the number of the window's first step
  std::int64_t steps_ = 0;       // steps completed in the window
  bool written_ = false;
};

}  // namespace halomesh
