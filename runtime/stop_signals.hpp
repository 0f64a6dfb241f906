// Requests of the outside to stop: signals and the wall-clock limit.
// Knows nothing of training; whoever asks decides what stopping means.
#pragma once

#include <atomic>

namespace halomesh {

/// While it lives, SIGTERM, SIGINT and SIGUSR1 set a flag instead of ending the process; the
/// destructor restores the default, and during an exception silences the answers of the others, as
/// this rank's error says more. One at a time in a process: signals have no owner.
class StopSignals {
 public:
  /// The first rank that finds `answered` cleared (it may be shared; null: this rank is silent)
  /// sets it and says what happens next and the cure: launchers send SIGTERM also to the survivors
  /// of a rank that died, just before they kill them. `answered` must outlive this object.
  explicit StopSignals(std::atomic<int>* answered);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// True once one of the signals has reached this process. Other ranks may know nothing of it: a
  /// launcher may forward a signal to some ranks only, so ranks must agree before they act.
  bool requested() const;
};

}  // namespace halomesh
