// SPDX-License-Identifier: Apache-2.0
// Platform files of SimGrid for the machines of forecasts.
#pragma once

#include <cstdint>
#include <string>

#include "src/apps/forecast/machine.hpp"

namespace halomesh {

/// A SimGrid platform (XML, DTD 4.1) of `nodes` hosts n0, n1, ... of ranks_per_node() cores each:
/// - torus: the most cube-like extents; one link to each neighbour, routes dimension by dimension;
/// - dragonfly: groups, chassis, routers and nodes of the machine's shape, as few groups as hold
/// the
///   nodes;
/// - fat tree: three levels of the shape's children; every node has one cable up.
/// Hosts compute 1 Gflop per second, so that smpi_execute() times are seconds. Latencies are those
/// of links; the rest of a message's latency belongs to smpi/os and smpi/or, as a comment says.
/// Throws UsageError for a machine without a network or with a shape of the wrong number of
/// extents.
std::string platform_xml(const Machine& machine, std::int64_t nodes);

}  // namespace halomesh
