// SPDX-License-Identifier: Apache-2.0
// The events of one rank during a window of steps: phases, messages, gradient sums, the loader's
// work and jobs between steps. Must not depend on MPI or on a file format.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "phase.hpp"

namespace halomesh {

/// One event, on this rank's own clock (Trace::now_ns()). Texts are not owned and must outlive the
/// Timeline.
struct TimelineEvent {
  enum class Kind : std::uint8_t {
    kPhase,    ///< a phase of a step; `name` is the layer
    kSend,     ///< packs a message for part `peer`; `name` is the tensor
    kReceive,  ///< waits for a message of part `peer`, which is there at `mark_ns`, and unpacks it
    kSum,      ///< sums gradient bucket number `tag`, from start to completion as noticed
    kLoad,     ///< `name` says what the loader's thread does for batch number `tag`
    kJob       ///< work between steps or before them: `name`, or `phase` if it is empty
  };
  Kind kind = Kind::kPhase;
  Phase phase = Phase::kOther;
  int peer = 0;
  std::int64_t tag = 0;  ///< with step and ranks, identifies a message
  std::string_view name;
  std::int64_t begin_ns = 0, end_ns = 0, mark_ns = 0;
  std::int64_t bytes = 0;
  std::int64_t step = 0;  ///< set by the Timeline: counted from the network's first, from 0
};

/// Keeps the events of a window of steps. Memory is allocated by reserve(), never within a step:
/// events beyond it are counted, not kept. All functions but load() belong to the main thread.
class Timeline {
 public:
  /// Makes room for `events` more events of the main thread and `loads` more of the loader's.
  void reserve(std::size_t events, std::size_t loads) {
    events_.reserve(events_.size() + events);
    const std::lock_guard lock(mutex_);
    loads_.reserve(loads_.size() + loads);
  }
  /// Keeps steps, the loader's work and jobs between steps from here until close().
  void open() { open_ = true; }
  void close() { open_ = false; }

  /// Begins a step; if it is not in the window, its events are only counted.
  void begin_step(std::int64_t number) {
    step_ = number;
    in_step_ = true;
    step_events_ = 0;
  }
  void end_step() { in_step_ = false; }
  /// Events of the current step so far; between steps, of the last one.
  std::size_t step_events() const { return step_events_; }

  /// A phase of a step; evaluation and checkpoint, which belong to no step, become kJob.
  void phase(Phase phase, std::string_view layer, std::int64_t begin_ns, std::int64_t end_ns) {
    if (phase == Phase::kEvaluation || phase == Phase::kCheckpoint) {
      if (open_) keep({Kind::kJob, phase, 0, 0, {}, begin_ns, end_ns, 0, 0, step_});
    } else {
      of_step({Kind::kPhase, phase, 0, 0, layer, begin_ns, end_ns, 0, 0, step_});
    }
  }
  /// A message or a gradient sum.
  void add(TimelineEvent event) {
    event.step = step_;
    of_step(event);
  }
  /// Work outside of steps, kept whether the window is open or not.
  void job(std::string_view name, std::int64_t begin_ns, std::int64_t end_ns) {
    keep({Kind::kJob, Phase::kOther, 0, 0, name, begin_ns, end_ns, 0, 0, step_});
  }
  /// Work of the loader's thread: may be called by any one thread at any time.
  void load(std::string_view what, std::int64_t batch, std::int64_t begin_ns, std::int64_t end_ns) {
    if (!open_) return;
    const std::lock_guard lock(mutex_);
    if (loads_.size() < loads_.capacity())
      loads_.push_back({Kind::kLoad, Phase::kOther, 0, batch, what, begin_ns, end_ns, 0, 0, 0});
    else
      ++dropped_;
  }

  /// All events: those of the main thread in order of their ends, then the loader's.
  std::vector<TimelineEvent> events() const {
    std::vector<TimelineEvent> all = events_;
    const std::lock_guard lock(mutex_);
    all.insert(all.end(), loads_.begin(), loads_.end());
    return all;
  }
  std::int64_t dropped() const { return dropped_; }

 private:
  using Kind = TimelineEvent::Kind;
  void of_step(const TimelineEvent& event) {
    if (!in_step_) return;
    ++step_events_;
    if (open_) keep(event);
  }
  void keep(const TimelineEvent& event) {
    if (events_.size() < events_.capacity())
      events_.push_back(event);
    else
      ++dropped_;
  }

  std::vector<TimelineEvent> events_, loads_;
  mutable std::mutex mutex_;  // protects loads_
  std::atomic<bool> open_ = false;
  std::atomic<std::int64_t> dropped_ = 0;
  bool in_step_ = false;
  std::int64_t step_ = 0;
  std::size_t step_events_ = 0;
};

}  // namespace halomesh
