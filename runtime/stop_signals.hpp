// Requests of the outside to stop: signals and the wall-clock limit.
// Knows nothing of training; whoever asks decides what stopping means.
#pragma once

namespace halomesh {

/// While it lives, SIGTERM, SIGINT and SIGUSR1 set a flag instead of ending the process; the
/// destructor restores what was there. One at a time in a process: signals have no owner.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// True once one of the signals has reached this process. Other ranks may know nothing of it: a
  /// launcher may forward a signal to some ranks only, so ranks must agree before they act.
  bool requested() const;
};

}  // namespace halomesh
