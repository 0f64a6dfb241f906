// SPDX-License-Identifier: Apache-2.0
// The timeline of one rank in the Trace Event Format, which Perfetto and chrome://tracing open.
// Pure: see trace_file.hpp for the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline.hpp"

namespace halomesh {

/// The facts on which the ranks of a trace agree.
struct TimelineFrame {
  std::int64_t ranks = 1, parts = 1;  ///< the run's; rank = replica * parts + part
  std::vector<int> traced;            ///< the ranks in the trace, ascending
  std::int64_t first_step = 0;        ///< the number of the first step in the window
  bool arrows = true;                 ///< false if an end of a message may be missing
};

/// One rank's part of a trace.
struct TimelineRank {
  int rank = 0;
  std::string host;
  /// The events as Timeline::events() returns them, with times since the beginning of the trace on
  /// the clock that all ranks share.
  std::vector<TimelineEvent> events;
  bool counters = false;             ///< also shows samples per second and halo kB
  std::int64_t samples_of_step = 0;  ///< total over ranks, for the counters
};

/// The elements of the array "traceEvents" for one rank, each after a comma. A process is a rank;
/// its threads are 0 phases, 1 messages, 2 gradient sums, 3 loader, 4 staging, evaluation and
/// checkpoints. Slices of a thread nest or follow one another. An arrow joins a message's packing
/// to its arrival if both ranks are traced. Times are in microseconds.
std::string timeline_text(const TimelineFrame& frame, const TimelineRank& rank);

}  // namespace halomesh
