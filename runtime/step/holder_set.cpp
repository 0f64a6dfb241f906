// SPDX-License-Identifier: Apache-2.0
// Holders of parameters: see holder_set.hpp.
#include "runtime/step/holder_set.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "narrow.hpp"

namespace halomesh {
namespace {

using Parts = std::vector<std::int64_t>;

// The distinct holder sets of the whole network, equal on every rank. They are arranged in rounds
// of disjoint sets, because one split of the world creates the communicators of a whole round.
std::vector<std::vector<Parts>> disjoint_rounds(const ModelGeometry& geometry) {
  std::vector<Parts> sets;
  for (const ParameterPlacement& placement : geometry.parameters())
    for (const SliceHolders& holders : placement.holders)
      if (std::find(sets.begin(), sets.end(), holders.parts) == sets.end())
        sets.push_back(holders.parts);
  std::vector<std::vector<Parts>> rounds;
  const auto disjoint = [](const Parts& a, const Parts& b) {
    return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) == a.end();
  };
  for (const Parts& set : sets) {
    const auto round = std::find_if(rounds.begin(), rounds.end(), [&](const auto& members) {
      return std::all_of(members.begin(), members.end(),
                         [&](const Parts& other) { return disjoint(set, other); });
    });
    if (round == rounds.end())
      rounds.push_back({set});
    else
      round->push_back(set);
  }
  return rounds;
}

// The number of holders on each node if all nodes with holders have equally many, at consecutive
// ranks; otherwise 1.
int holders_of_a_node(const MeshShape& shape, const Parts& set, std::int64_t ranks_per_node) {
  const std::int64_t parts = shape.parts.count();
  if (ranks_per_node % parts == 0) return narrow<int>(ranks_per_node / parts * std::ssize(set));
  if (parts % ranks_per_node != 0) return 1;
  std::int64_t each = 0;
  for (auto first = set.begin(); first != set.end();) {
    const std::int64_t node = *first / ranks_per_node;
    const auto last =
        std::find_if(first, set.end(), [&](auto part) { return part / ranks_per_node != node; });
    if (each != 0 && last - first != each) return 1;
    each = last - first;
    first = last;
  }
  return narrow<int>(each);
}

// The way between the first holder and its partner for each digit of a rank. On a torus whose
// extents are powers of 2, all ranks have equal ways.
std::vector<SumWay> ways_of(const HolderSet& set, const Torus& torus, int stride, int ranks) {
  std::vector<SumWay> ways;
  std::array<int, 3> numbers{-1, -1, -1};
  int axes = 0;
  for (const int factor : sum_digits(ranks / stride)) {
    const auto hops = torus.hops(0, set.world_rank(stride) / set.ranks_per_node);
    const auto most = std::max_element(hops.begin(), hops.end());
    int& number = numbers[static_cast<std::size_t>(most - hops.begin())];
    if (number < 0) number = axes++;
    ways.push_back({number, std::accumulate(hops.begin(), hops.end(), 0)});
    stride *= factor;
  }
  return ways;
}

}  // namespace

HolderSet::HolderSet(const MeshShape& mesh, int of_a_node, Parts holding_parts)
    : shape(mesh), parts(std::move(holding_parts)), ranks_per_node(of_a_node) {
  place.ranks = narrow<int>(shape.replicas * std::ssize(parts));
  place.per_node = holders_of_a_node(shape, parts, ranks_per_node);
}

SumChoice HolderSet::choose(Reduction reduction, double bytes, const Torus& torus) const {
  const NetworkCost network = default_network(ranks_per_node);
  SumChoice sum = choose_sum(reduction, place, per_replica(), bytes, network);
  if (!torus.known() || torus.nodes() * ranks_per_node < shape.ranks()) return sum;
  sum.ways = ways_of(*this, torus, first_level(sum.algorithm, sum.place), sum.place.ranks);
  sum.parts = sum_parts(sum, bytes, network);
  return sum;
}

int HolderSet::world_rank(int holder) const {
  return narrow<int>(shape.rank_of(holder / per_replica(),
                                   parts[static_cast<std::size_t>(holder % per_replica())]));
}

int HolderSet::holder(std::int64_t replica, std::int64_t part) const {
  const auto at = std::lower_bound(parts.begin(), parts.end(), part);
  return narrow<int>(replica * per_replica() + (at - parts.begin()));
}

std::vector<Comm> comms_of(const ProcessMesh& mesh, const ModelGeometry& geometry,
                           const std::vector<HolderSet>& sets) {
  std::vector<Comm> comms(sets.size());
  for (const auto& round : disjoint_rounds(geometry)) {
    int color = -1;
    for (std::size_t i = 0; i < round.size(); ++i)
      if (std::binary_search(round[i].begin(), round[i].end(), mesh.part())) color = narrow<int>(i);
    Comm comm = mesh.world().split(color, mesh.world().rank());
    if (color < 0) continue;
    const auto set = std::find_if(sets.begin(), sets.end(), [&](const HolderSet& of) {
      return of.parts == round[static_cast<std::size_t>(color)];
    });
    if (set != sets.end()) comms[static_cast<std::size_t>(set - sets.begin())] = std::move(comm);
  }
  return comms;
}

}  // namespace halomesh
