// SPDX-License-Identifier: Apache-2.0
// Times of messages and sums: plausible, equal on every rank, and of the ranks asked for.
#include "runtime/mpi/message_times.hpp"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>

#include "runtime/mpi/node_place.hpp"
#include "runtime/mpi/quiet_barrier.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

/// Whether all ranks have the same positive value.
bool agreed(double value) {
  return value > 0 && std::isfinite(value) && test_world().max(value) == value &&
         -test_world().max(-value) == value;
}

TEST_CASE("a straight line is recovered from its points") {
  const auto line = [](std::int64_t bytes) {
    return MessageTime{bytes, 2e-6 + 1e-10 * static_cast<double>(bytes)};
  };
  const std::array exact{line(8), line(4096), line(1 << 20), line(1 << 24)};
  const LinkFit fit = fit_link(exact);
  CHECK(fit.latency_s == doctest::Approx(2e-6));
  CHECK(fit.s_per_byte == doctest::Approx(1e-10));
  // Neither is ever negative: times that fall with the size, or proportional ones with noise.
  const LinkFit falling = fit_link(std::array{MessageTime{8, 2e-6}, MessageTime{1 << 20, 1e-6}});
  CHECK(falling.s_per_byte == 0);
  CHECK(falling.latency_s > 1e-6);
  const LinkFit steep = fit_link(std::array{MessageTime{1000, 1e-6}, MessageTime{4000, 5e-6}});
  CHECK(steep.latency_s == 0);
  CHECK(steep.s_per_byte > 1e-9);
}

TEST_CASE("a ping-pong gives every rank the same times") {
  const Comm& world = test_world();
  if (world.size() < 2) return;
  const std::array<std::int64_t, 3> sizes{8, 4096, 1 << 20};
  const RankPair pair{world.size() - 1, 0};
  const std::vector<MessageTime> times = ping_pong(world, pair, sizes);
  REQUIRE(times.size() == sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(times[i].bytes == sizes[i]);
    CHECK(agreed(times[i].seconds));
  }
  CHECK(times[2].seconds > times[0].seconds);  // a MiB takes longer than a word
  const std::int64_t eager = eager_limit(world, pair);
  CHECK(world.max(eager) == eager);
  CHECK(eager <= 4 << 20);
  CHECK((eager == 0 || std::has_single_bit(static_cast<std::uint64_t>(eager))));
  CHECK(agreed(world.max(poll_cost_s(world))));
}

TEST_CASE("ranks are numbered by node and place, and nodes send at once") {
  const Comm& world = test_world();
  // Two ranks stand for a node.
  const Comm node = world.split(world.rank() / 2, world.rank());
  const NodePlace place = node_place(world, node);
  CHECK(place.node == world.rank() / 2);
  CHECK(place.place == world.rank() % 2);
  CHECK(place.nodes == (world.size() + 1) / 2);
  CHECK(place.most_per_node == std::min(world.size(), 2));
  const double injection = injection_s_per_byte(world, place.node, place.place, 1 << 16);
  if (place.nodes > 1)
    CHECK(agreed(injection));
  else
    CHECK(injection == 0);
}

TEST_CASE("work is timed on the first ranks, while the others sleep") {
  const Comm& world = test_world();
  int calls = 0;
  median_seconds(world, 1, [&](const Comm& part) {
    CHECK(part.size() == 1);
    ++calls;
  });
  CHECK((calls > 0) == (world.rank() == 0));
}

TEST_CASE("no rank leaves a quiet barrier before the last has come") {
  const Comm& world = test_world();
  if (world.rank() == world.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const auto now_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const double arrived = now_s();
  quiet_barrier(world);
  const double left = now_s();
  CHECK(left >= world.max(arrived));  // ranks of one machine share this clock
}

}  // namespace
}  // namespace halomesh
