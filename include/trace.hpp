// SPDX-License-Identifier: Apache-2.0
// RAII scopes that record (phase, detail, begin, end, bytes) into a Trace.
// A null Trace records nothing and costs one branch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "phase.hpp"
#include "simulation.hpp"
#include "timeline.hpp"

namespace halomesh {

/// One measured interval. `detail` names a layer or tensor, or is empty; the text is not owned and
/// must outlive the Trace.
struct TraceEvent {
  Phase phase = Phase::kOther;
  std::string_view detail;
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t received_bytes = 0;
};

/// The intervals of one rank, in order of their ends. All memory is allocated at construction:
/// events beyond the capacity are counted, not kept.
class Trace {
 public:
  explicit Trace(std::size_t capacity) { events_.reserve(capacity); }

  void record(const TraceEvent& event) {
    if (timeline_ != nullptr)
      timeline_->phase(event.phase, event.detail, event.begin_ns, event.end_ns);
    if (events_.size() < events_.capacity())
      events_.push_back(event);
    else
      ++dropped_;
  }
  const std::vector<TraceEvent>& events() const { return events_; }
  std::int64_t dropped() const { return dropped_; }
  void clear() { events_.clear(); }
  /// Sends every later event to `timeline`, too, which must outlive this object; null stops that.
  void send_to(Timeline* timeline) { timeline_ = timeline; }
  /// The timeline that records messages and gradient sums; may be null.
  Timeline* timeline() const { return timeline_; }
  static std::int64_t now_ns() {
    if constexpr (simulation::kOn) return simulation::now_ns();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  std::vector<TraceEvent> events_;
  std::int64_t dropped_ = 0;
  Timeline* timeline_ = nullptr;
};

/// Records the time from its construction to its destruction.
class TraceScope {
 public:
  TraceScope(Trace* trace, Phase phase, std::string_view detail = {})
      : trace_(trace), event_{phase, detail, trace != nullptr ? Trace::now_ns() : 0, 0, 0} {}
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope() {
    if (trace_ == nullptr) return;
    event_.end_ns = Trace::now_ns();
    trace_->record(event_);
  }

  /// Bytes that arrived from other ranks during the scope.
  void add_received(std::int64_t bytes) { event_.received_bytes += bytes; }

 private:
  Trace* trace_;
  TraceEvent event_;
};

}  // namespace halomesh
