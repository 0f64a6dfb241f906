// SPDX-License-Identifier: Apache-2.0
// SimGrid platform files for the machines of forecasts.
#pragma once

#include <cstdint>
#include <string>

#include "src/apps/forecast/machine.hpp"

namespace halomesh {

/// A SimGrid platform (XML, DTD 4.1) of the hosts n0, n1, ... of network_shape_of(machine, nodes),
/// with ranks_per_node() cores each; SimGrid takes the routes of Routes. Hosts compute 1 Gflop per
/// second, so that smpi_execute() times are seconds. Latencies are those of links; the rest of a
/// message's latency belongs to smpi/os and smpi/or: a comment says so, and halomesh-smpi passes it
/// on. Throws UsageError as network_shape_of() does.
std::string platform_xml(const Machine& machine, std::int64_t nodes);

}  // namespace halomesh
