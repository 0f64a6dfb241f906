// SPDX-License-Identifier: Apache-2.0
// How long the messages of one exchange between the parts of a sample travel, all replicas at once.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cost/network_cost.hpp"
#include "partition/mesh_shape.hpp"
#include "src/apps/forecast/routes.hpp"

namespace halomesh {

/// From a part to another of the same replica.
struct HaloMessage {
  std::int64_t from = 0, to = 0;
  double bytes = 0;
};

/// Where messages between parts go.
struct HaloPlace {
  const Routes& routes;
  const NetworkCost& network;
  double hop_s = 0;
};

/// Seconds that each of `messages`, sent at the same time, is under way on the links it takes. A
/// link gives each message on it, of this replica or another, the same share until it is through.
/// Of the replicas, eight are looked at: those further away use other links.
std::vector<double> travel_seconds(const HaloPlace& place, const MeshShape& mesh,
                                   const std::vector<HaloMessage>& messages);

}  // namespace halomesh
