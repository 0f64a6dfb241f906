// SPDX-License-Identifier: Apache-2.0
// The time of a step by phase and layer: see phase_times.hpp.
#include "runtime/log/phase_times.hpp"

#include <algorithm>

#include "error.hpp"

namespace halomesh {

PhaseTimes::Row& PhaseTimes::row(Phase phase, std::string_view layer) {
  const auto at = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
    return row.key.phase == phase && row.key.layer == layer;
  });
  return at != rows_.end() ? *at : rows_.emplace_back(Row{{phase, std::string(layer)}, 0, 0});
}

void PhaseTimes::add(std::span<const TraceEvent> step) {
  const auto is_step = [](const TraceEvent& e) { return e.phase == Phase::kStep; };
  if (std::count_if(step.begin(), step.end(), is_step) != 1 || !is_step(step.back()))
    throw Error("the intervals are not those of one step");
  closed_.clear();
  for (const TraceEvent& event : step) {
    std::int64_t own_ns = event.end_ns - event.begin_ns;
    while (!closed_.empty() && closed_.back().begin_ns >= event.begin_ns) {
      own_ns -= closed_.back().end_ns - closed_.back().begin_ns;
      closed_.pop_back();
    }
    closed_.push_back(event);
    Row& sum = row(is_step(event) ? Phase::kOther : event.phase, event.detail);
    sum.ns += own_ns;
    sum.received_bytes += event.received_bytes;
  }
  if (closed_.size() != 1) throw Error("an interval began before its step");
}

PhaseTimes::Row PhaseTimes::of(const PhaseKey& key) const {
  const auto at =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.key == key; });
  return at != rows_.end() ? *at : Row{key, 0, 0};
}

PhaseTimes::Row PhaseTimes::of(Phase phase) const {
  Row sum{{phase, ""}, 0, 0};
  for (const Row& row : rows_) {
    if (row.key.phase != phase) continue;
    sum.ns += row.ns;
    sum.received_bytes += row.received_bytes;
  }
  return sum;
}

}  // namespace halomesh
