// SPDX-License-Identifier: Apache-2.0
// Measures the properties of a machine on which forecasts of steps depend.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/machine/binding.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/mpi/node_place.hpp"
#include "src/apps/bench/machine_record.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Measures messages, sums and barriers; sums stop after about `seconds`. Needs two ranks.
/// Collective.
NetworkRecord measure_machine_network(const Comm& world, const NodePlace& place, double seconds);

/// Runs all measurements in about --calibrate-seconds; rank 0 prints its progress and results. The
/// kernel cases are divided over the ranks, unless ranks share cores: then rank 0 measures all
/// cases while the others sleep. Collective over `world`.
MachineRecord calibrate(const Comm& world, const Options& options, const RankBinding& binding,
                        const MachinePeak& peak_of_all);

}  // namespace halomesh
