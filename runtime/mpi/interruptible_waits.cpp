// SPDX-License-Identifier: Apache-2.0
// Interruptible waits: see interruptible_waits.hpp.
#include "runtime/mpi/interruptible_waits.hpp"

#include <utility>

namespace halomesh {
namespace {

// One per process, because requests do not know their communicators. Only the thread that calls MPI
// reads and writes it.
std::function<bool()> interruption;

}  // namespace

InterruptibleWaits::InterruptibleWaits(std::function<bool()> interrupted) {
  interruption = std::move(interrupted);
}

InterruptibleWaits::~InterruptibleWaits() { interruption = nullptr; }

bool InterruptibleWaits::exist() { return static_cast<bool>(interruption); }

void InterruptibleWaits::check() {
  if (interruption && interruption()) throw WaitInterrupted();
}

}  // namespace halomesh
