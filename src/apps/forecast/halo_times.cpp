// SPDX-License-Identifier: Apache-2.0
// Messages between parts in a network: see halo_times.hpp.
#include "src/apps/forecast/halo_times.hpp"

#include <algorithm>
#include <map>

namespace halomesh {
namespace {

constexpr std::int64_t kReplicas = 8;

}  // namespace

std::vector<double> travel_seconds(const HaloPlace& place, const MeshShape& mesh,
                                   const std::vector<HaloMessage>& messages) {
  const int per_node = place.network.ranks_per_node;
  const std::int64_t replicas = std::min(mesh.replicas, kReplicas), middle = replicas / 2;
  const auto node = [&](std::int64_t replica, std::int64_t part) {
    return mesh.rank_of(replica, part) / per_node;
  };
  const std::size_t injections = place.routes.links();
  const auto append = [&](std::int64_t replica, const HaloMessage& message,
                          std::vector<std::size_t>& route) {
    const std::int64_t from = node(replica, message.from), to = node(replica, message.to);
    if (from == to) return;
    place.routes.append(from, to, route);
    if (per_node > 1) route.push_back(injections + static_cast<std::size_t>(from));
  };
  std::vector<std::vector<std::size_t>> routes(messages.size());  // of the replica in the middle
  std::vector<bool> used;                                         // links of these
  for (std::size_t i = 0; i < messages.size(); ++i) {
    append(middle, messages[i], routes[i]);
    for (const std::size_t link : routes[i]) {
      used.resize(std::max(used.size(), link + 1));
      used[link] = true;
    }
  }
  std::vector<std::pair<std::size_t, double>> bytes_on;  // by link
  std::vector<std::size_t> route;
  for (std::int64_t replica = 0; replica < replicas; ++replica)
    for (const HaloMessage& message : messages) {
      route.clear();
      append(replica, message, route);
      for (const std::size_t link : route)
        if (link < used.size() && used[link]) bytes_on.emplace_back(link, message.bytes);
    }
  std::sort(bytes_on.begin(), bytes_on.end());
  std::vector<double> seconds;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const double bytes = messages[i].bytes;
    if (node(middle, messages[i].from) == node(middle, messages[i].to)) {
      seconds.push_back(bytes * place.network.within_node.s_per_byte);
      continue;
    }
    double slowest = bytes * place.network.between_nodes.s_per_byte, hops = 0;
    for (const std::size_t link : routes[i]) {
      double shared = 0;
      for (auto at = std::lower_bound(bytes_on.begin(), bytes_on.end(), std::pair{link, 0.0});
           at != bytes_on.end() && at->first == link; ++at)
        shared += std::min(at->second, bytes);
      const bool injects = link >= injections;
      const double s_per_byte =
          injects ? place.network.injection_s_per_byte : 1 / place.routes.bytes_per_s(link);
      slowest = std::max(slowest, shared * s_per_byte);
      hops += injects ? 0 : 1;
    }
    seconds.push_back(slowest + hops * place.hop_s);
  }
  return seconds;
}

}  // namespace halomesh
