// SPDX-License-Identifier: Apache-2.0
// The time of a step by phase and layer, summed over traced intervals.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace.hpp"

namespace halomesh {

/// A phase of one layer, or of the tensor that this layer makes ("" for neither).
struct PhaseKey {
  Phase phase = Phase::kOther;
  std::string layer;
  friend bool operator==(const PhaseKey&, const PhaseKey&) = default;
};

/// Time and bytes of each phase on one rank. An interval counts without the intervals inside it, so
/// that phases add up exactly to the steps; what no interval of a step covers is Phase::kOther.
class PhaseTimes {
 public:
  struct Row {
    PhaseKey key;
    std::int64_t ns = 0, received_bytes = 0;
  };

  /// Adds the intervals of one step in order of their ends, as a Trace keeps them: the last one is
  /// Phase::kStep and holds all others. Throws Error otherwise. Allocates only for new phases and
  /// nesting depths. Texts of the intervals must stay where they are as long as steps are added.
  void add(std::span<const TraceEvent> step);
  void add(const PhaseTimes& other);
  /// Sets all sums to zero; phases and memory stay.
  void reset();

  /// In the order in which phases first ended.
  const std::vector<Row>& rows() const { return rows_; }
  /// The row of `key`; zeros when it has not occurred.
  Row of(const PhaseKey& key) const;
  /// The sum over all layers of a phase.
  Row of(Phase phase) const;
  /// Seconds of the phases of this kind, and of all.
  double seconds(PhaseKind kind) const;
  double seconds() const;

 private:
  Row& row(Phase phase, std::string_view layer);
  Row& new_row(Phase phase, std::string_view layer);

  std::vector<Row> rows_;
  std::vector<std::string_view> texts_;  // of the rows' layers, as last added
  std::size_t last_ = 0;                 // the row added to last
  std::vector<TraceEvent> closed_;       // outermost intervals so far
};

}  // namespace halomesh
