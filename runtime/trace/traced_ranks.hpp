// SPDX-License-Identifier: Apache-2.0
// The selection of the steps and ranks in a trace. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/mesh_shape.hpp"

namespace halomesh {

/// A window of steps, counted from 1 within a run.
struct TraceSteps {
  std::int64_t first = 5, count = 3;
  std::int64_t last() const { return first + count - 1; }
};

/// Parses "5+3": three steps from the fifth. Throws UsageError unless FIRST is at least 1 and COUNT
/// 1 to 1000.
TraceSteps parse_trace_steps(const std::string& text);

/// Parses "0-3,8" or "all" into ascending ranks of a run of `ranks` ranks. Throws UsageError for
/// any other text and for ranks that do not exist.
std::vector<int> parse_trace_ranks(const std::string& text, std::int64_t ranks);

/// The ranks that a trace shows by default, besides the slowest: all up to 64; beyond, the first 32
/// parts of replica 0 and the first rank of up to 16 other replicas, spaced evenly in the logarithm
/// of their number.
std::vector<int> default_trace_ranks(const MeshShape& mesh);

}  // namespace halomesh
