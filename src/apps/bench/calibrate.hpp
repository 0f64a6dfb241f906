// SPDX-License-Identifier: Apache-2.0
// Measures once what predictions of a step need to know of a machine.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/machine/binding.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/mpi/node_place.hpp"
#include "src/apps/bench/machine_record.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Messages, sums and barriers; sums stop after about `seconds`. Two ranks at least. Collective.
NetworkRecord measure_machine_network(const Comm& world, const NodePlace& place, double seconds);

/// All measurements, in about --calibrate-seconds; rank 0 prints what it does and finds. The kernel
/// cases are shared out over the ranks, unless ranks share cores: then rank 0 measures them all
/// while the others sleep. Collective over `world`.
MachineRecord calibrate(const Comm& world, const Options& options, const RankBinding& binding,
                        const MachinePeak& peak_of_all);

}  // namespace halomesh
