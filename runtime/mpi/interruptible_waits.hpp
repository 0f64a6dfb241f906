// SPDX-License-Identifier: Apache-2.0
// Ends waits for failed ranks, so that the other ranks can leave their work as well.
#pragma once

#include <functional>

#include "error.hpp"

namespace halomesh {

/// Thrown out of a wait. It has no message for the user: the failed rank prints one.
class WaitInterrupted : public Error {
 public:
  WaitInterrupted() : Error("interrupted: another rank has failed") {}
};

/// While this object exists, each wait of this process for other ranks (in Comm, Requests and their
/// users) asks `interrupted` from time to time and throws WaitInterrupted once it returns true.
/// Blocking collectives, which cannot be left, then begin when all ranks have arrived. All
/// communication meanwhile must use communicators whose ranks all have such an object. One at a
/// time per process. See contained_failure().
class InterruptibleWaits {
 public:
  explicit InterruptibleWaits(std::function<bool()> interrupted);
  InterruptibleWaits(const InterruptibleWaits&) = delete;
  InterruptibleWaits& operator=(const InterruptibleWaits&) = delete;
  ~InterruptibleWaits();

  /// True if such an object exists.
  static bool exist();
  /// Throws WaitInterrupted if such an object exists and is to end waits. For loops that wait.
  static void check();
};

}  // namespace halomesh
