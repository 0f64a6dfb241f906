// SPDX-License-Identifier: Apache-2.0
// A machine whose compute times replace computing: the file of --simulate-compute.
#pragma once

#include <memory>
#include <string>

#include "partition/cost/kernel_table.hpp"
#include "src/apps/bench/machine_peak.hpp"
#include "src/nn/compute_clock.hpp"
#include "src/nn/timed_layer.hpp"

namespace halomesh {

/// What a step needs to know of the machine that it is timed for.
struct TimedMachine {
  std::string name;
  KernelTable kernels;
  int threads = 1;  ///< of a rank
  MachinePeak rank_peak;
  double copy_s_per_byte = 0, add_s_per_byte = 0;
  double poll_s = 1e-3;
  ProgramClock clock;

  /// Of all ranks together.
  MachinePeak peak_of(int ranks) const {
    return {rank_peak.fp32 * ranks, rank_peak.bf16 * ranks, rank_peak.triad * ranks};
  }
  LayerTiming timing() { return {kernels, clock, poll_s, threads}; }
};

/// Reads a file of `bench --calibrate`. "kernel_efficiency", 1 by default, is the share of the peak
/// that kernels reach which are not in its table. Throws Error for a file that is no such
/// object, or a number that is missing or out of range.
std::unique_ptr<TimedMachine> read_timed_machine(const std::string& file);

}  // namespace halomesh
