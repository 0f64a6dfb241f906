// SPDX-License-Identifier: Apache-2.0
// A clock by which a rank lets time pass instead of computing.
#pragma once

#include <chrono>

#include "simulation.hpp"

namespace halomesh {

/// Spends the time of work that is not done.
class ComputeClock {
 public:
  ComputeClock() = default;
  ComputeClock(const ComputeClock&) = delete;
  ComputeClock& operator=(const ComputeClock&) = delete;
  virtual ~ComputeClock() = default;

  /// Returns after `seconds`, with the seconds that have really passed: more where the thread was
  /// interrupted. Local.
  virtual double spend(double seconds) = 0;
};

/// The clock of this program. Simulated time passes in the simulated program; in the real one this
/// thread spins, as kernels would keep its core busy.
class ProgramClock final : public ComputeClock {
 public:
  double spend(double seconds) override {
    if constexpr (simulation::kOn) {
      simulation::spend(seconds);
      return seconds;
    } else {
      using Clock = std::chrono::steady_clock;
      using Seconds = std::chrono::duration<double>;
      const auto begin = Clock::now();
      double passed = 0;
      while (passed < seconds) passed = Seconds(Clock::now() - begin).count();
      return passed;
    }
  }
};

}  // namespace halomesh
