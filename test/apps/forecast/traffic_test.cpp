// SPDX-License-Identifier: Apache-2.0
// Routes of networks, what sums of gradients send over their links, and when they are done.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "models/cosmoflow.hpp"
#include "partition/cost/sum_schedule.hpp"
#include "src/apps/forecast/halo_times.hpp"
#include "src/apps/forecast/sum_timeline.hpp"

namespace halomesh {
namespace {

using Route = std::vector<std::size_t>;

NetworkShape torus(std::int64_t x, std::int64_t y, std::int64_t z) {
  NetworkShape t;
  t.kind = Interconnect::kTorus;
  t.extents = {x, y, z};
  t.link_bytes_per_s = 1e9;
  return t;
}

Route route_of(const NetworkShape& topology, std::int64_t from, std::int64_t to) {
  Route route;
  Routes(topology).append(from, to, route);
  return route;
}

bool disjoint(const Route& a, const Route& b) {
  return std::none_of(a.begin(), a.end(),
                      [&](auto link) { return std::find(b.begin(), b.end(), link) != b.end(); });
}

SumTraffic traffic_on(const NetworkShape& topology, const MeshShape& mesh) {
  CosmoFlowOptions options;
  options.input = {4, 32, 32, 32};
  options.conv_layers = 3;
  const Model model = make_cosmoflow(options);
  SumRoutes known;
  return sum_traffic(Routes(topology), model.geometry(mesh.parts), mesh, {}, known);
}

// One sum of `rounds` rounds of `bytes` bytes; round k uses pattern (k + first) % 2.
SumTraffic two_axes(std::size_t sums, std::size_t rounds, double bytes, bool same_axis) {
  SumTraffic traffic;
  for (std::size_t i = 0; i < sums; ++i) {
    SumTraffic::Sum& sum = traffic.sums.emplace_back();
    sum.parts = {0};
    sum.bytes = bytes;
    for (std::size_t k = 0; k < rounds; ++k)
      sum.rounds.push_back({bytes, 1, false, {{same_axis ? 0 : (k + i) % 2, 1}}, 1});
  }
  traffic.links = {{1e9, {1, 0}}, {1e9, {0, 1}}};
  return traffic;
}

MessageCost wire_only() {
  MessageCost cost;
  cost.bytes_per_s = 1e9;
  return cost;
}

}  // namespace

TEST_CASE("messages cross a torus axis by axis, along the shorter way") {
  const NetworkShape t = torus(4, 4, 2);
  CHECK(Routes(t).links() == 32 * 3 * 2);
  CHECK(route_of(t, 5, 5).empty());
  CHECK(route_of(t, 0, 1).size() == 1);
  CHECK(route_of(t, 0, 3).size() == 1);  // around the end
  CHECK(route_of(t, 0, 2).size() == 2);
  CHECK(route_of(t, 0, 1 + 4 * 2 + 16).size() == 4);
  CHECK(disjoint(route_of(t, 0, 1), route_of(t, 1, 0)));  // each direction is a link
  CHECK(disjoint(route_of(t, 0, 1), route_of(t, 4, 5)));
  CHECK_FALSE(disjoint(route_of(t, 0, 2), route_of(t, 1, 3)));  // both from 1 to 2
  // Of two ways of equal length, 3 -> 1 goes on around the end, 2 -> 0 back.
  CHECK(route_of(t, 3, 1) == Route{route_of(t, 3, 0)[0], route_of(t, 0, 1)[0]});
  CHECK(route_of(t, 2, 0) == Route{route_of(t, 2, 1)[0], route_of(t, 1, 0)[0]});
  std::size_t most = 0;
  for (std::int64_t from = 0; from < 32; ++from)
    for (std::int64_t to = 0; to < 32; ++to)
      for (const std::size_t link : route_of(t, from, to)) most = std::max(most, link);
  CHECK(most < Routes(t).links());
}

TEST_CASE("messages cross a dragonfly by one router of each group") {
  NetworkShape t;
  t.kind = Interconnect::kDragonfly;
  t.groups = 3, t.routers = 4, t.nodes_of_router = 2;
  t.pair_links = 2, t.group_links = 5;
  t.link_bytes_per_s = 1e9;
  const Routes routes(t);
  CHECK(route_of(t, 0, 1).size() == 2);      // one router
  CHECK(route_of(t, 0, 2).size() == 3);      // two
  CHECK(route_of(t, 0, 8 + 2).size() == 5);  // by router 1 here, router 0 there
  CHECK(route_of(t, 2, 8 + 1).size() == 3);  // between those two themselves
  CHECK(routes.bytes_per_s(route_of(t, 0, 2)[0]) == 1e9);
  CHECK(routes.bytes_per_s(route_of(t, 0, 2)[1]) == 2e9);
  CHECK(routes.bytes_per_s(route_of(t, 2, 8 + 1)[1]) == 5e9);
  CHECK(disjoint(route_of(t, 0, 2), route_of(t, 2, 0)));
  CHECK(routes.links() == 24 * 2 + 3 * 16 + 9);
}

TEST_CASE("messages climb a fat tree as far as they must") {
  NetworkShape t;
  t.kind = Interconnect::kFatTree;
  t.children = {4, 2, 3};  // 4 nodes to a leaf, 2 leaves to a pod, 3 pods
  t.link_bytes_per_s = 1e9;
  CHECK(t.nodes() == 24);
  CHECK(route_of(t, 0, 1).size() == 2);
  CHECK(route_of(t, 0, 4).size() == 4);
  CHECK(route_of(t, 0, 8).size() == 6);
  // The destination chooses the port of a leaf.
  CHECK(route_of(t, 0, 4)[1] == route_of(t, 1, 6)[1]);
  CHECK(route_of(t, 0, 4)[1] != route_of(t, 1, 5)[1]);
  CHECK(disjoint(route_of(t, 0, 8), route_of(t, 8, 0)));
}

TEST_CASE("topologies of machines hold their nodes") {
  Machine machine;
  machine.interconnect = Interconnect::kDragonfly;
  machine.shape = {26, 6, 16, 4};
  machine.set({"link-gbs", 5.25, Origin::kAssumed, "T", "T"});
  machine.set({"message-gbs", 8, Origin::kAssumed, "T", "T"});
  for (const std::int64_t nodes : {1, 384, 385, 8192}) {
    const NetworkShape t = network_shape_of(machine, nodes);
    CHECK(t.nodes() >= nodes);
    // A group's routers must be as many as the groups, each of which has one of its own.
    CHECK(t.groups <= t.routers);
    CHECK(t.pair_links == 2);  // 3 x 5.25 / 8
  }
  machine.interconnect = Interconnect::kTorus;
  CHECK(network_shape_of(machine, 512).extents == std::array<std::int64_t, 3>{8, 8, 8});
  CHECK(network_shape_of(machine, 12).extents == std::array<std::int64_t, 3>{3, 2, 2});
  CHECK(network_shape_of(machine, 7).extents == std::array<std::int64_t, 3>{7, 1, 1});
  // A prime number of nodes is no row of them.
  CHECK(network_shape_of(machine, 16381).extents == std::array<std::int64_t, 3>{32, 32, 16});
  machine.interconnect = Interconnect::kNone;
  CHECK_THROWS_AS(network_shape_of(machine, 4), UsageError);
}

TEST_CASE("rounds of sums load links by their distance") {
  const SumTraffic traffic = traffic_on(torus(4, 2, 1), {8, {1, 1, 1}});
  REQUIRE(traffic.sums.size() == 2);  // fc1, and all other layers
  const SumTraffic::Sum& sum = traffic.sums[0];
  CHECK(sum.parts == std::vector<std::int64_t>{0});
  REQUIRE(!sum.rounds.empty());
  std::set<int> loads;
  for (const RoundTraffic& round : sum.rounds) {
    REQUIRE(round.shares.size() == 3);
    int hops = 0;
    for (const RoundTraffic::Share& share : round.shares) {
      int most = 0;
      for (const SumTraffic::Links& links : traffic.links)
        most = std::max(most, static_cast<int>(links.flows[share.pattern]));
      // In a ring of 4, messages over 2 links share each with another.
      loads.insert(most);
      hops = std::max(hops, most);
    }
    CHECK(hops == round.hops);
  }
  CHECK(loads == std::set<int>{1, 2});
  double added = 0;
  for (const RoundTraffic& round : sum.rounds) added += round.adds ? round.bytes : 0;
  CHECK(added >= sum.bytes * 7 / 8);
  // Ranks of one node send nothing over links; all parts are found.
  CHECK(traffic_on(torus(2, 1, 1), {1, {1, 1, 1}}).sums.empty());
  std::set<std::int64_t> parts;
  for (const SumTraffic::Sum& each : traffic_on(torus(4, 2, 1), {2, {2, 2, 1}}).sums)
    parts.insert(each.parts.begin(), each.parts.end());
  CHECK(parts == std::set<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("sums of which ranks are no power of 2 are found in every round") {
  const SumTraffic traffic = traffic_on(torus(3, 2, 1), {6, {1, 1, 1}});
  REQUIRE(traffic.sums.size() == 2);  // fc1, and all other layers
  for (const RoundTraffic& round : traffic.sums[0].rounds) {
    CHECK(round.bytes > 0);
    CHECK(round.hops >= 1);
  }
}

TEST_CASE("all ranks of a sum do what rank 0 does") {
  std::size_t compared = 0;
  for (const SumAlgorithm algorithm :
       {SumAlgorithm::kRecursiveDoubling, SumAlgorithm::kHalvingDoubling, SumAlgorithm::kRing,
        SumAlgorithm::kTwoLevel})
    for (const SumPlace& place : {SumPlace{16, 1}, SumPlace{24, 4}, SumPlace{12, 1},
                                  SumPlace{18, 3}, SumPlace{7, 1}, SumPlace{32, 4}}) {
      const bool doubles = algorithm == SumAlgorithm::kRecursiveDoubling;
      if (doubles && (place.ranks & (place.ranks - 1)) != 0) continue;
      if (algorithm == SumAlgorithm::kTwoLevel && place.per_node == 1) continue;
      const int parts = algorithm == SumAlgorithm::kHalvingDoubling ? 2 : 1;
      for (const SumAlgorithm across : {SumAlgorithm::kHalvingDoubling, SumAlgorithm::kRing}) {
        const SumChoice sum{algorithm, place, across, parts};
        const auto first = sum_schedule(sum, 0, 10000, 1);
        for (int rank = 1; rank < place.ranks; ++rank) {
          const auto rounds = sum_schedule(sum, rank, 10000, 1);
          REQUIRE(rounds.size() == first.size());
          for (std::size_t k = 0; k < rounds.size(); ++k) {
            std::set<int> expected, sent;
            for (const SumPiece& piece : first[k].sends)
              expected.insert(partner_like_first(sum, piece.rank, rank));
            for (const SumPiece& piece : rounds[k].sends) sent.insert(piece.rank);
            CHECK(sent == expected);
            compared += sent.size();
          }
        }
      }
    }
  CHECK(compared > 1000);
}

TEST_CASE("parts of a bucket use the links of several axes at the same time") {
  CosmoFlowOptions options;
  options.input = {4, 32, 32, 32};
  options.conv_layers = 5;
  const Model model = make_cosmoflow(options);
  const MeshShape mesh{64, {1, 1, 1}};
  SumRoutes known;
  const SumTraffic traffic =
      sum_traffic(Routes(torus(4, 4, 4)), model.geometry(mesh.parts), mesh, {}, known);
  const auto most_bytes = std::max_element(
      traffic.sums.begin(), traffic.sums.end(),
      [](const SumTraffic::Sum& a, const SumTraffic::Sum& b) { return a.bytes < b.bytes; });
  REQUIRE(most_bytes != traffic.sums.end());
  REQUIRE(most_bytes->rounds.size() == 12);  // 6 to scatter, 6 to gather
  double sent = 0;
  for (const RoundTraffic& round : most_bytes->rounds) {
    std::set<std::size_t> patterns;
    double of_bytes = 0;
    for (const RoundTraffic::Share& share : round.shares) {
      patterns.insert(share.pattern);
      of_bytes += share.of_bytes;
    }
    CHECK(patterns.size() == 3);
    CHECK(of_bytes == doctest::Approx(1));
    sent += round.bytes;
  }
  CHECK(sent == doctest::Approx(2 * most_bytes->bytes * 63 / 64).epsilon(0.001));
  // The first round of the three parts: to neighbours along each axis, no link twice.
  for (const SumTraffic::Links& links : traffic.links) {
    std::uint32_t flows = 0;
    for (const RoundTraffic::Share& share : most_bytes->rounds[0].shares)
      flows += links.flows[share.pattern];
    CHECK(flows <= 1);
  }
  // Buckets of other sizes take the same routes.
  CHECK(known.patterns.size() == 6);
  SumSettings small;
  small.bucket_bytes = 65536;
  CHECK(sum_traffic(Routes(torus(4, 4, 4)), model.geometry(mesh.parts), mesh, small, known)
            .sums.size() > traffic.sums.size());
  CHECK(known.patterns.size() == 6);
}

TEST_CASE("links that are never fuller than others are left out, and rates do not change") {
  SumTraffic traffic = two_axes(2, 4, 1e6, false);
  std::vector<ComputedStretches> idle(1);
  const auto done = play_sums(traffic, {0, 1e-4}, wire_only(), idle);
  traffic.links.push_back({2e9, {1, 0}});
  traffic.links.push_back({1e9, {0, 0}});
  idle.assign(1, ComputedStretches());
  CHECK(play_sums(traffic, {0, 1e-4}, wire_only(), idle) == done);
  const SumTraffic found = traffic_on(torus(8, 4, 2), {64, {1, 1, 1}});
  REQUIRE(found.links.size() > 1);
  for (const SumTraffic::Links& a : found.links)
    for (const SumTraffic::Links& b : found.links)
      if (&a != &b && a.bytes_per_s >= b.bytes_per_s)
        CHECK_FALSE(std::equal(a.flows.begin(), a.flows.end(), b.flows.begin(),
                               [](auto x, auto y) { return x <= y; }));
}

TEST_CASE("sums in flight share links, and other axes not") {
  std::vector<ComputedStretches> idle(1);
  const double bytes = 1e6;  // 1 ms on a link
  const auto alone = play_sums(two_axes(1, 4, bytes, true), {0}, wire_only(), idle);
  CHECK(alone[0] == doctest::Approx(4e-3));
  const auto shared = play_sums(two_axes(2, 4, bytes, true), {0, 0}, wire_only(), idle);
  CHECK(shared[0] == doctest::Approx(8e-3));
  CHECK(shared[1] == doctest::Approx(8e-3));
  const auto apart = play_sums(two_axes(2, 4, bytes, false), {0, 0}, wire_only(), idle);
  CHECK(apart[0] == doctest::Approx(4e-3));
  CHECK(apart[1] == doctest::Approx(4e-3));
  // The second begins when half of the first is done: 2 alone, 4 shared, 2 alone.
  const auto late = play_sums(two_axes(2, 4, bytes, true), {0, 2e-3}, wire_only(), idle);
  CHECK(late[0] == doctest::Approx(6e-3));
  CHECK(late[1] == doctest::Approx(8e-3));
}

TEST_CASE("sums beside computation go on at polls and delay it") {
  std::vector<ComputedStretches> busy(1, ComputedStretches(4e-3));
  busy[0].add(0, 10e-3);
  CHECK(busy[0].poll_after(1e-3) == doctest::Approx(4e-3));
  CHECK(busy[0].poll_after(9e-3) == doctest::Approx(10e-3));  // the end of a kernel polls
  CHECK(busy[0].poll_after(11e-3) == 11e-3);
  // Rounds of 1 ms begin at 0, 4, 8, 10 and at once after that.
  const auto done = play_sums(two_axes(1, 5, 1e6, true), {0}, wire_only(), busy);
  CHECK(done[0] == doctest::Approx(12e-3));
  MessageCost cost = wire_only();
  cost.overhead_s = 1e-3;
  busy.assign(1, ComputedStretches(4e-3));
  busy[0].add(0, 10e-3);
  // Posted at 0 and left at 1 ms; polls are 1 ms late: 5 (2 ms of work), 11 and the end at 14.
  const auto delayed = play_sums(two_axes(1, 2, 1e6, true), {0}, cost, busy);
  CHECK(busy[0].delay() > 2.9e-3);
  CHECK(delayed[0] > 8e-3);
}

TEST_CASE("bytes that a shared core copies within the node delay what it computes") {
  SumTraffic traffic = two_axes(1, 3, 1e6, true);
  for (RoundTraffic& round : traffic.sums[0].rounds) round.shares.clear();
  MessageCost cost = wire_only();
  cost.within_node.s_per_byte = 1e-9;
  const auto delay = [&](bool cores_copy) {
    cost.cores_copy = cores_copy;
    std::vector<ComputedStretches> busy(1, ComputedStretches(1e-3));
    busy[0].add(0, 10e-3);
    play_sums(traffic, {0}, cost, busy);
    return busy[0].delay();
  };
  CHECK(delay(false) == 0);
  CHECK(delay(true) == doctest::Approx(3e-3));
}

TEST_CASE("halos that share links travel longer") {
  NetworkCost network;
  network.between_nodes = {0, 1e-9};
  network.within_node = {0, 0.5e-9};
  const Routes line(torus(8, 1, 1));
  const MeshShape mesh{1, {8, 1, 1}};
  const auto travel = [&](double hop_s, const std::vector<HaloMessage>& messages) {
    HaloRoutes known;
    travel_seconds({line, network, hop_s}, mesh, {{0, 1, 1}, {1, 2, 1}}, known);
    const auto first = travel_seconds({line, network, hop_s}, mesh, messages, known);
    CHECK(travel_seconds({line, network, hop_s}, mesh, messages, known) == first);
    return first;
  };
  const auto alone = travel(1e-6, {{0, 1, 1e6}});
  REQUIRE(alone.size() == 1);
  CHECK(alone[0] == doctest::Approx(1e-3 + 1e-6));
  // 0 -> 2 and 1 -> 2 share the link from 1; the shorter is through first.
  const auto shared = travel(0, {{0, 2, 1e6}, {1, 2, 0.5e6}});
  CHECK(shared[0] == doctest::Approx(1.5e-3));
  CHECK(shared[1] == doctest::Approx(1e-3));
  network.ranks_per_node = 2;
  CHECK(travel(0, {{0, 1, 1e6}})[0] == doctest::Approx(0.5e-3));
}

}  // namespace halomesh
