// SPDX-License-Identifier: Apache-2.0
// How long the messages of one exchange between the parts of a sample travel, all replicas at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
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

/// Which messages meet on which links, kept for exchanges between the same parts of one mesh.
class HaloRoutes {
 public:
  struct Pattern {
    struct Link {
      std::size_t number;
      std::vector<std::size_t> messages;  ///< that it carries, of all replicas that are looked at
    };
    std::vector<Link> links;                       ///< of the replica in the middle
    std::vector<std::vector<std::size_t>> routes;  ///< of its messages: of `links`
  };
  const Pattern& pattern(const HaloPlace& place, const MeshShape& mesh,
                         const std::vector<HaloMessage>& messages);

 private:
  std::map<std::vector<std::pair<std::int64_t, std::int64_t>>, Pattern> patterns_;
  std::vector<std::size_t> place_of_;  ///< in Pattern::links, by link; kNone while none is known
};

/// Seconds that each of `messages`, sent at the same time, is under way on the links it takes. A
/// link gives each message on it, of this replica or another, the same share until it is through.
/// Of the replicas, eight are looked at: those further away use other links. `known` is of this
/// mesh and place.
std::vector<double> travel_seconds(const HaloPlace& place, const MeshShape& mesh,
                                   const std::vector<HaloMessage>& messages, HaloRoutes& known);

}  // namespace halomesh
