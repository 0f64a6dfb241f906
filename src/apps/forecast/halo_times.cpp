// SPDX-License-Identifier: Apache-2.0
// Messages between parts in a network: see halo_times.hpp.
#include "src/apps/forecast/halo_times.hpp"

#include <algorithm>
#include <functional>

namespace halomesh {
namespace {

constexpr std::int64_t kReplicas = 8;
constexpr auto kNone = static_cast<std::size_t>(-1);

std::int64_t replicas_of(const MeshShape& mesh) { return std::min(mesh.replicas, kReplicas); }

std::int64_t node_of(const HaloPlace& place, const MeshShape& mesh, std::int64_t replica,
                     std::int64_t part) {
  return mesh.rank_of(replica, part) / place.network.ranks_per_node;
}

// The sizes of the messages on one link, with their sums.
class LinkLoad {
 public:
  LinkLoad(const std::vector<std::size_t>& on_link, const std::vector<HaloMessage>& messages) {
    for (const std::size_t i : on_link) bytes_.push_back(messages[i].bytes);
    if (std::adjacent_find(bytes_.begin(), bytes_.end(), std::not_equal_to<>{}) != bytes_.end())
      std::sort(bytes_.begin(), bytes_.end());
    double sum = 0;
    for (const double bytes : bytes_) sums_.push_back(sum += bytes);
  }
  // The bytes that the link has carried once a message of `bytes` is through: longer messages count
  // as much as it, because all share the link equally.
  double until(double bytes) const {
    const auto longer = bytes_.end() - std::upper_bound(bytes_.begin(), bytes_.end(), bytes);
    const std::size_t others = bytes_.size() - static_cast<std::size_t>(longer);
    return (others > 0 ? sums_[others - 1] : 0) + static_cast<double>(longer) * bytes;
  }

 private:
  std::vector<double> bytes_, sums_;
};

}  // namespace

const HaloRoutes::Pattern& HaloRoutes::pattern(const HaloPlace& place, const MeshShape& mesh,
                                               const std::vector<HaloMessage>& messages) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  pairs.reserve(messages.size());
  for (const HaloMessage& message : messages) pairs.emplace_back(message.from, message.to);
  const auto [at, is_new] = patterns_.try_emplace(std::move(pairs));
  Pattern& pattern = at->second;
  if (!is_new) return pattern;
  const std::size_t injections = place.routes.links();
  const auto append = [&](std::int64_t replica, const HaloMessage& message,
                          std::vector<std::size_t>& route) {
    const std::int64_t from = node_of(place, mesh, replica, message.from);
    const std::int64_t to = node_of(place, mesh, replica, message.to);
    if (from == to) return;
    place.routes.append(from, to, route);
    if (place.network.ranks_per_node > 1)
      route.push_back(injections + static_cast<std::size_t>(from));
  };
  const std::int64_t replicas = replicas_of(mesh), middle = replicas / 2;
  std::vector<std::size_t> route;
  for (const HaloMessage& message : messages) {
    route.clear();
    append(middle, message, route);
    for (std::size_t& link : route) {
      if (link >= place_of_.size()) place_of_.resize(link + 1, kNone);
      if (place_of_[link] == kNone) {
        place_of_[link] = pattern.links.size();
        pattern.links.push_back({link, {}});
      }
      link = place_of_[link];
    }
    pattern.routes.push_back(route);
  }
  for (std::int64_t replica = 0; replica < replicas; ++replica)
    for (std::size_t i = 0; i < messages.size(); ++i) {
      route.clear();
      append(replica, messages[i], route);
      for (const std::size_t link : route)
        if (link < place_of_.size() && place_of_[link] != kNone)
          pattern.links[place_of_[link]].messages.push_back(i);
    }
  for (const Pattern::Link& link : pattern.links) place_of_[link.number] = kNone;
  return pattern;
}

std::vector<double> travel_seconds(const HaloPlace& place, const MeshShape& mesh,
                                   const std::vector<HaloMessage>& messages, HaloRoutes& known) {
  const HaloRoutes::Pattern& pattern = known.pattern(place, mesh, messages);
  std::vector<LinkLoad> loads;
  loads.reserve(pattern.links.size());
  for (const auto& link : pattern.links) loads.emplace_back(link.messages, messages);
  const std::int64_t middle = replicas_of(mesh) / 2;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const double bytes = messages[i].bytes;
    if (node_of(place, mesh, middle, messages[i].from) ==
        node_of(place, mesh, middle, messages[i].to)) {
      seconds.push_back(bytes * place.network.within_node.s_per_byte);
      continue;
    }
    double slowest = bytes * place.network.between_nodes.s_per_byte, hops = 0;
    for (const std::size_t link : pattern.routes[i]) {
      const std::size_t number = pattern.links[link].number;
      const bool injects = number >= place.routes.links();
      const double s_per_byte =
          injects ? place.network.injection_s_per_byte : 1 / place.routes.bytes_per_s(number);
      slowest = std::max(slowest, loads[link].until(bytes) * s_per_byte);
      hops += injects ? 0 : 1;
    }
    seconds.push_back(slowest + hops * place.hop_s);
  }
  return seconds;
}

}  // namespace halomesh
