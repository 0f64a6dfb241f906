// SPDX-License-Identifier: Apache-2.0
// The time before the wall limit at which a run must stop, from the times of its parts so far. Must
// not read a clock: the caller passes measured times.
#pragma once

namespace halomesh {

/// The margin of one job, in seconds of one clock. Each rank judges by its own times, so ranks must
/// agree before they act.
class WallLimit {
 public:
  /// The assumed time of a checkpoint until one has been written, and its greatest share of a short
  /// limit, so that the first step does not end the run.
  static constexpr double kAssumedCheckpointSeconds = 5, kAssumedShare = 0.05;

  /// `limit_s` counts from `started_s`; 0: no limit.
  WallLimit(double started_s, double limit_s) : started_s_(started_s), limit_s_(limit_s) {}

  void step_took(double seconds);
  void evaluation_took(double seconds) { evaluation_s_ = seconds; }
  void checkpoint_took(double seconds);

  /// The time for one more step and a clean end: twice the slowest step so far, twice the slowest
  /// checkpoint, because file systems vary, and the last validation if one of `evaluation_steps`
  /// batches is due (0: none). Before the first validation, each of its batches counts as a
  /// training step.
  double margin_s(double evaluation_steps) const;
  bool reached(double now_s, double evaluation_steps) const {
    return limit_s_ > 0 && margin_s(evaluation_steps) > left_s(now_s);
  }
  double left_s(double now_s) const { return limit_s_ - (now_s - started_s_); }

 private:
  double started_s_, limit_s_;
  double slowest_step_s_ = 0, evaluation_s_ = 0, slowest_checkpoint_s_ = 0;
};

}  // namespace halomesh
