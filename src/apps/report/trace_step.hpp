// SPDX-License-Identifier: Apache-2.0
// The first traced step in a file of `train --trace`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace halomesh {

struct TraceSlice {
  std::int64_t rank = 0;
  std::string phase, layer;
  double begin_us = 0, end_us = 0;  ///< after the step's earliest begin on any rank
};

struct TraceStep {
  std::string name;  ///< of the file
  std::int64_t step = 0, ranks = 0;
  double clock_error_us = 0;
  std::int64_t dropped_events = 0;
  std::vector<std::pair<std::int64_t, std::string>> traced;  ///< rank and its name, ascending
  std::vector<TraceSlice> slices;  ///< of the compute track, without the step itself
};

/// Reads Chrome trace JSON, gzipped (of one or several members) or not. Throws Error naming the
/// file when it is damaged or holds no step.
TraceStep read_trace_step(const std::filesystem::path& path);

}  // namespace halomesh
