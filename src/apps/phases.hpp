// Where the time of a step goes: recorded intervals summed by what was done and for which layer.
// Knows the names that intervals have; nothing of ranks or of how they were recorded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace.hpp"

namespace halomesh {

/// The interval that holds all others of a step, and what is left of it as a phase.
constexpr std::string_view kStepName = "step", kOtherName = "other";

enum class PhaseKind { kCompute, kHaloWait, kReductionWait, kInputWait, kOptimizer, kOther };

/// What a name of an interval stands for; an unknown one is kOther.
PhaseKind kind_of(std::string_view name);
const char* to_string(PhaseKind kind);

/// What was done and for which layer, or for the tensor that this layer makes ("" for neither).
struct PhaseKey {
  std::string name, layer;
  friend bool operator==(const PhaseKey&, const PhaseKey&) = default;
};

/// Seconds of each phase on one rank. An interval counts without those inside it, so that phases
/// add up to the steps exactly; what no interval covers is the phase kOtherName, the first.
class PhaseTimes {
 public:
  PhaseTimes() : keys_{{std::string(kOtherName), ""}}, seconds_{0.0} {}

  /// Adds the intervals of one step, one of them kStepName, in any order; they nest or are apart.
  /// Throws Error when there is not one step.
  void add(std::span<const TraceEvent> events);

  /// In the order in which phases first ended.
  const std::vector<PhaseKey>& keys() const { return keys_; }
  const std::vector<double>& seconds() const { return seconds_; }
  /// The seconds of other `keys` than these; what they lack is added to kOtherName among them.
  std::vector<double> seconds_of(std::span<const PhaseKey> keys) const;

 private:
  std::size_t find_or_add(const TraceEvent& event);

  std::vector<PhaseKey> keys_;
  std::vector<double> seconds_;
};

}  // namespace halomesh
