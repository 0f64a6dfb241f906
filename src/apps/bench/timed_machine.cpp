// SPDX-License-Identifier: Apache-2.0
// The machine of --simulate-compute: see timed_machine.hpp.
#include "src/apps/bench/timed_machine.hpp"

#include "error.hpp"
#include "simulation.hpp"
#include "src/apps/forecast/machine_file.hpp"

namespace halomesh {

std::unique_ptr<TimedMachine> read_timed_machine(const Comm& world, const std::string& file) {
  auto timed = std::make_unique<TimedMachine>();
  Machine& machine = timed->machine = read_machine(file);
  machine.derive(world.node().size());
  const NetworkCost& network = machine.network;
  if (network.poll_s <= 0)
    throw UsageError(fmt::format("{} does not say how often a rank polls while it computes", file),
                     "add poll-ms, or measure it by bench --calibrate");
  const KernelTable::Rates& rank = machine.kernels.rates;
  timed->peak.fp32 = rank.peak_flops * world.size();
  timed->peak.triad = rank.triad * world.size();
  if constexpr (simulation::kOn)
    simulation::set_rates({network.copy, network.add_s_per_byte,
                           rank.triad > 0 ? 1 / rank.triad : network.copy.s_per_byte});
  return timed;
}

}  // namespace halomesh
