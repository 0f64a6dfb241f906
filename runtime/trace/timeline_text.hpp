// SPDX-License-Identifier: Apache-2.0
// The timeline of one rank in the Trace Event Format, which Perfetto and chrome://tracing open.
// Pure: see trace_file.hpp for the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline.hpp"

namespace halomesh {

/// What the ranks of a trace agree on.
struct TimelineFrame {
  std::int64_t ranks = 1, parts = 1;  ///< of the run; rank = replica * parts + part
  std::vector<int> traced;            ///< the ranks in the trace, ascending
  std::int64_t first_step = 0;        ///< number of the first step in the window
  bool arrows = true;                 ///< false when an end of a message may be missing
};

/// One rank's part of a trace.
struct TimelineRank {
  int rank = 0;
  std::string host;
  /// As Timeline::events() returns them, with times since the beginning of the trace on the clock
  /// that all ranks share.
  std::vector<TimelineEvent> events;
  bool counters = false;             ///< also show samples per second and halo kB
  std::int64_t samples_of_step = 0;  ///< of all ranks, for the counters
};

/// The elements of the array "traceEvents" for one rank, each after a comma. Process = rank; thread
/// 0 phases, 1 messages, 2 gradient sums, 3 loader, 4 staging, evaluation and checkpoints. Slices
/// of a thread nest or follow one another. An arrow joins a message's packing to its arrival if
/// both ranks are traced. Times are in microseconds.
std::string timeline_text(const TimelineFrame& frame, const TimelineRank& rank);

}  // namespace halomesh
