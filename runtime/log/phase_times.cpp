// SPDX-License-Identifier: Apache-2.0
// The time of a step by phase and layer: see phase_times.hpp.
#include "runtime/log/phase_times.hpp"

#include <algorithm>

#include "error.hpp"

namespace halomesh {

PhaseTimes::Row& PhaseTimes::new_row(Phase phase, std::string_view layer) {
  texts_.push_back(layer);
  return rows_.emplace_back(Row{{phase, std::string(layer)}, 0, 0});
}

// Steps repeat one another: most often the row is the last one or the next, and its text lies where
// it did before. Then a few comparisons of numbers suffice; texts are compared only if they have
// moved.
PhaseTimes::Row& PhaseTimes::row(Phase phase, std::string_view layer) {
  const auto found = [&](std::size_t i) -> Row& {
    texts_[i] = layer;
    return rows_[last_ = i];
  };
  for (std::size_t n = 0, i = last_; n < rows_.size(); ++n, i = i + 1 < rows_.size() ? i + 1 : 0) {
    if (rows_[i].key.phase != phase || texts_[i].size() != layer.size()) continue;
    if (layer.empty() || texts_[i].data() == layer.data()) return found(i);
  }
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].key.phase == phase && rows_[i].key.layer == layer) return found(i);
  last_ = rows_.size();
  return new_row(phase, layer);
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

void PhaseTimes::add(const PhaseTimes& other) {
  for (const Row& row : other.rows_) {
    const auto at = std::find_if(rows_.begin(), rows_.end(),
                                 [&](const Row& mine) { return mine.key == row.key; });
    Row& sum = at != rows_.end() ? *at : new_row(row.key.phase, row.key.layer);
    sum.ns += row.ns;
    sum.received_bytes += row.received_bytes;
  }
}

void PhaseTimes::reset() {
  for (Row& row : rows_) row.ns = row.received_bytes = 0;
}

double PhaseTimes::seconds(PhaseKind kind) const {
  std::int64_t ns = 0;
  for (const Row& row : rows_)
    if (kind_of(row.key.phase) == kind) ns += row.ns;
  return static_cast<double>(ns) * 1e-9;
}

double PhaseTimes::seconds() const {
  std::int64_t ns = 0;
  for (const Row& row : rows_) ns += row.ns;
  return static_cast<double>(ns) * 1e-9;
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
