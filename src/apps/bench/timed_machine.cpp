// SPDX-License-Identifier: Apache-2.0
// The machine of --simulate-compute: see timed_machine.hpp.
#include "src/apps/bench/timed_machine.hpp"

#include <iostream>

#include "error.hpp"
#include "simulation.hpp"
#include "src/apps/forecast/machine_file.hpp"

namespace halomesh {

std::unique_ptr<TimedMachine> read_timed_machine(const Comm& world, const std::string& file,
                                                 DataType precision) {
  auto timed = std::make_unique<TimedMachine>();
  Machine& machine = timed->machine = read_machine(file, precision);
  machine.derive(world.node().size());
  if (precision == DataType::kBfloat16) machine.note_stand_ins();
  if (world.rank() == 0)
    for (const std::string& note : machine.notes) std::cerr << "note: " << note << '\n';
  const NetworkCost& network = machine.network;
  if (network.poll_s <= 0)
    throw UsageError(fmt::format("{} does not say how often a rank polls while it computes", file),
                     "add poll-ms, or measure it by bench --calibrate");
  const KernelTable::Rates& rank = machine.kernels.rates;
  double& peak = precision == DataType::kBfloat16 ? timed->peak.bf16 : timed->peak.fp32;
  peak = rank.peak_flops * world.size();
  timed->peak.triad = rank.triad * world.size();
  if constexpr (simulation::kOn)
    simulation::set_rates({network.copy, network.add_s_per_byte,
                           rank.triad > 0 ? 1 / rank.triad : network.copy.s_per_byte});
  return timed;
}

}  // namespace halomesh
