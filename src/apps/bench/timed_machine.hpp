// SPDX-License-Identifier: Apache-2.0
// A machine whose compute times replace computing: that of --simulate-compute.
#pragma once

#include <memory>
#include <string>

#include "runtime/mpi/mpi.hpp"
#include "src/apps/bench/machine_peak.hpp"
#include "src/apps/forecast/machine.hpp"
#include "src/nn/compute_clock.hpp"
#include "src/nn/timed_layer.hpp"

namespace halomesh {

/// A machine, and the properties that a timed step needs of it.
struct TimedMachine {
  Machine machine;
  MachinePeak peak;  ///< all ranks together
  ProgramClock clock;

  LayerTiming timing() {
    return {machine.kernels, clock, machine.network.poll_s, machine.threads()};
  }
};

/// Reads `file`, as `plan --machine` does, for this job's number of ranks per node; with simulated
/// ranks it also sets the rates of packing, additions and updates. Rank 0 prints a note for each
/// number of fp32 that stands in for one of bf16. Throws UsageError as read_machine() does, and if
/// the file does not say how often a rank polls. Collective over `world`.
std::unique_ptr<TimedMachine> read_timed_machine(const Comm& world, const std::string& file,
                                                 DataType precision);

}  // namespace halomesh
