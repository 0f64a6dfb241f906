// SPDX-License-Identifier: Apache-2.0
// Requests from outside to stop: the signals of schedulers, launchers and terminals.
// Must not depend on training: whoever asks decides what stopping means.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <string>

namespace halomesh {

/// While it lives, the signals that ask a process to stop set a flag instead of ending it: SIGTERM
/// (Slurm, PBS, PJM and launchers, some time before SIGKILL), SIGINT and SIGHUP (terminals),
/// SIGXCPU (PJM and Grid Engine, at a time limit), SIGUSR1 and SIGUSR2 (Slurm's --signal, Grid
/// Engine, LSF). SIGINT and SIGHUP stay ignored where they were when the process started, as under
/// nohup. The destructor restores what was before, and during an exception silences the answers of
/// the others, as this rank's error says more. One at a time in a process: signals have no owner.
class StopSignals {
 public:
  /// The first rank that finds `answered` cleared (it may be shared; null: this rank is silent)
  /// sets it and prints "halomesh: SIGTERM received: " and `answer`: launchers send SIGTERM also to
  /// the survivors of a rank that died, just before they kill them. `answered` must outlive this
  /// object.
  explicit StopSignals(std::atomic<int>* answered = nullptr, const std::string& answer = {});
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// True once one of the signals has reached this process. Other ranks may not have got it: a
  /// launcher may forward a signal to some ranks only, so ranks must agree before they act.
  bool requested() const;
  /// "SIGTERM", the signal that reached this process last; "a signal" when none did.
  std::string name() const;

 private:
  static constexpr std::size_t kSignals = 6;
  std::array<struct sigaction, kSignals> before_{};
};

}  // namespace halomesh
