// SPDX-License-Identifier: Apache-2.0
// External requests to stop: the signals of schedulers, launchers and terminals. Must not depend on
// training: the caller decides what stopping means.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <string>

namespace halomesh {

/// While this object exists, the signals that ask a process to stop set a flag instead of ending
/// it: SIGTERM (Slurm, PBS, PJM and launchers, some time before SIGKILL), SIGINT and SIGHUP
/// (terminals), SIGXCPU (PJM and Grid Engine, at a time limit) and SIGUSR2 (Slurm's --signal, Grid
/// Engine, LSF). SIGUSR1 asks for a report instead and stops nothing. SIGINT and SIGHUP stay
/// ignored if they were when the process started, as under nohup. The destructor restores the
/// previous handlers and, during an exception, suppresses the answers of other ranks, because this
/// rank's error message says more. Signals and their requests are global: there may be one object
/// at a time per process, or one within the life of another, which then keeps a request that has
/// arrived.
class StopSignals {
 public:
  /// The first rank that finds `answered` cleared (it may be shared; null: this rank is silent)
  /// sets it and prints "halomesh: SIGTERM received: " and `answer`. Launchers also send SIGTERM to
  /// the survivors of a dead rank, just before they kill them. `answered` must outlive this object.
  explicit StopSignals(std::atomic<int>* answered = nullptr, const std::string& answer = {});
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// True once one of the signals has reached this process, or share() has found that one has
  /// reached another process. A launcher may forward a signal to only some ranks, so ranks must
  /// agree before they act.
  bool requested() const;
  /// For ranks that do not agree by themselves: from now on, and as long as this object lives, each
  /// call of requested() of any object calls `pass_on`. Its argument says whether a signal has
  /// reached this process, and its result whether one has reached another.
  void share(std::function<bool(bool received)> pass_on);
  /// The name of the last signal received, e.g. "SIGTERM"; "a signal" if there was none.
  std::string name() const;
  /// Makes the process ignore these signals and SIGUSR1 for the rest of its life, even after
  /// objects end: its work is done, and a signal during its cleanup must not turn that into a
  /// failure.
  static void ignore_from_now_on();
  /// True if SIGUSR1 has reached this process since the last call or the constructor.
  bool take_report_request();

 private:
  static constexpr std::size_t kSignals = 5;
  std::array<struct sigaction, kSignals> before_{};
  struct sigaction before_report_ {};
  bool shares_ = false;
};

}  // namespace halomesh
