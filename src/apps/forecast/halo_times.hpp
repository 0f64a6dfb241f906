// SPDX-License-Identifier: Apache-2.0
// How long the messages of one exchange between the parts of a sample travel, with all replicas
// exchanging at once.
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

/// A message from one part to another of its replica.
struct HaloMessage {
  std::int64_t from = 0, to = 0;
  double bytes = 0;
};

/// The mapping of parts to a network.
struct HaloPlace {
  const Routes& routes;
  const NetworkCost& network;
  double hop_s = 0;
};

/// The messages on each link, kept for exchanges between these parts of one mesh.
class HaloRoutes {
 public:
  struct Pattern {
    struct Link {
      std::size_t number;
      std::vector<std::size_t> messages;  ///< the messages that it carries, of all replicas
                                          ///< considered
    };
    std::vector<Link> links;                       ///< links of the middle replica
    std::vector<std::vector<std::size_t>> routes;  ///< by its messages: indices of `links`
  };
  const Pattern& pattern(const HaloPlace& place, const MeshShape& mesh,
                         const std::vector<HaloMessage>& messages);

 private:
  std::map<std::vector<std::pair<std::int64_t, std::int64_t>>, Pattern> patterns_;
  std::vector<std::size_t> place_of_;  ///< the index in Pattern::links, by link; kNone if unknown
};

/// The seconds that each of `messages`, all sent at once, spends on its links. A link shares its
/// rate equally among the messages on it, of this replica and others, until each is through. Eight
/// replicas are considered: those further away use other links. `known` belongs to this mesh and
/// place.
std::vector<double> travel_seconds(const HaloPlace& place, const MeshShape& mesh,
                                   const std::vector<HaloMessage>& messages, HaloRoutes& known);

}  // namespace halomesh
