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
/// that phases add up exactly to the steps; time that no interval of a step covers is
/// Phase::kOther.
class PhaseTimes {
 public:
  struct Row {
    PhaseKey key;
    std::int64_t ns = 0, received_bytes = 0;
  };

  /// Adds the intervals of one step in the order of their ends, as a Trace keeps them: the last one
  /// is Phase::kStep and contains all others; otherwise throws Error. Allocates only for new phases
  /// and nesting depths. Texts of the intervals must stay in place as long as steps are added.
  void add(std::span<const TraceEvent> step);
  void add(const PhaseTimes& other);
  /// Sets all sums to zero; phases and memory are kept.
  void reset();

  /// The rows in the order in which phases first ended.
  const std::vector<Row>& rows() const { return rows_; }
  /// The row of `key`; zeros if it has not occurred.
  Row of(const PhaseKey& key) const;
  /// The sum over all layers of a phase.
  Row of(Phase phase) const;
  /// The total seconds of one kind of phases, and of all.
  double seconds(PhaseKind kind) const;
  double seconds() const;

 private:
  Row& row(Phase phase, std::string_view layer);
  Row& new_row(Phase phase, std::string_view layer);

  std::vector<Row> rows_;
  std::vector<std::string_view> texts_;  // the layers' texts of the rows, as last added
  std::size_t last_ = 0;                 // the last row to be added to
  std::vector<TraceEvent> closed_;       // outermost intervals so far
};

}  // namespace halomesh
