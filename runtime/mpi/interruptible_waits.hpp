// SPDX-License-Identifier: Apache-2.0
// Ends waits for ranks that have failed alone, so that the others can leave their work as well.
#pragma once

#include <functional>

#include "error.hpp"

namespace halomesh {

/// Thrown out of a wait. Says nothing to the user: the rank that failed does.
class WaitInterrupted : public Error {
 public:
  WaitInterrupted() : Error("interrupted: another rank has failed") {}
};

/// While this object exists, each wait of this process for other ranks, in Comm, Requests and what
/// uses them, asks `interrupted` from time to time and throws WaitInterrupted once it returns true.
/// Blocking collectives, which cannot be left, then begin when all ranks have arrived. Everything
/// in between must run on communicators whose ranks all have such an object. One at a time per
/// process. See contained_failure().
class InterruptibleWaits {
 public:
  explicit InterruptibleWaits(std::function<bool()> interrupted);
  InterruptibleWaits(const InterruptibleWaits&) = delete;
  InterruptibleWaits& operator=(const InterruptibleWaits&) = delete;
  ~InterruptibleWaits();

  /// Whether there is such an object.
  static bool exist();
  /// Throws WaitInterrupted if there is one and it is to end waits. For loops that wait.
  static void check();
};

}  // namespace halomesh
