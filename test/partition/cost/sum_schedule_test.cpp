// SPDX-License-Identifier: Apache-2.0
// Schedules of sums, played by simulated ranks in any order of time: the sum of every element, the
// same bits on all ranks, and the rounds and bytes that the formulas of their costs count.
#include "partition/cost/sum_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "rng.hpp"

namespace halomesh {
namespace {

using Schedules = std::vector<std::vector<SumRound>>;
using Buffers = std::vector<std::vector<float>>;

// Ranks that take their next round whenever its messages are there; `order` says who tries first.
class Machine {
 public:
  Machine(const Schedules& schedules, Buffers buffers)
      : schedules_(schedules),
        buffers_(std::move(buffers)),
        round_(schedules.size()),
        sent_(schedules.size()) {}

  /// False when no rank can go on although some have rounds left.
  bool run(std::uint32_t order) {
    const CounterRng rng(7, RandomUse::kSynth, order, 0);
    const std::size_t ranks = schedules_.size();
    for (std::uint64_t turn = 0, idle = 0; idle < 40 * ranks + 40; ++turn) {
      const auto rank = static_cast<std::size_t>(rng.uniform(turn) * static_cast<float>(ranks));
      idle = step(std::min(rank, ranks - 1)) ? 0 : idle + 1;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (step(rank) || round_[rank] != schedules_[rank].size()) return false;
    return std::all_of(messages_.begin(), messages_.end(),
                       [](const auto& queue) { return queue.second.empty(); });
  }
  const Buffers& buffers() const { return buffers_; }

 private:
  bool step(std::size_t rank) {
    if (round_[rank] == schedules_[rank].size()) return false;
    const SumRound& round = schedules_[rank][round_[rank]];
    std::vector<float>& mine = buffers_[rank];
    const auto at = [&](std::int64_t i) { return mine.begin() + i; };
    const int me = static_cast<int>(rank);
    const bool first = !sent_[rank];
    if (first)
      for (const SumPiece& piece : round.sends)
        messages_[{me, piece.rank}].emplace_back(at(piece.lo), at(piece.hi));
    sent_[rank] = true;
    std::map<int, std::size_t> needed;
    for (const SumPiece& piece : round.receives)
      if (messages_[{piece.rank, me}].size() < ++needed[piece.rank]) return first;
    for (const SumPiece& piece : round.receives) {
      auto& queue = messages_[{piece.rank, me}];
      REQUIRE(static_cast<std::int64_t>(queue.front().size()) == piece.hi - piece.lo);
      for (std::int64_t i = piece.lo; i < piece.hi; ++i) {
        const float value = queue.front()[static_cast<std::size_t>(i - piece.lo)];
        *at(i) = round.add ? *at(i) + value : value;
      }
      queue.pop_front();
    }
    sent_[rank] = false;
    ++round_[rank];
    return true;
  }

  const Schedules& schedules_;
  Buffers buffers_;
  std::vector<std::size_t> round_;
  std::vector<bool> sent_;  // what this round sends
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> messages_;
};

struct Way {
  SumChoice sum;
  int rotation = 0;
};

SumChoice halving(int ranks, int per_node, int parts) {
  return {SumAlgorithm::kHalvingDoubling, {ranks, per_node}, SumAlgorithm::kRing, parts};
}

std::vector<Way> ways_of(int ranks) {
  using enum SumAlgorithm;
  std::vector<Way> ways;
  for (const SumAlgorithm algorithm : {kRecursiveDoubling, kRing, kBinomialTree})
    ways.push_back({{algorithm, {ranks, 1}}});
  for (int per_node = 1; per_node <= ranks; ++per_node) {
    for (int parts = 1; parts <= 3; ++parts)
      ways.push_back({halving(ranks, per_node, parts), per_node});
    if (ranks % per_node == 0)
      for (const SumAlgorithm across : {kRecursiveDoubling, kHalvingDoubling, kRing})
        ways.push_back({{kTwoLevel, {ranks, per_node}, across, 3}, per_node});
  }
  // On a torus: the later digits are the nearer ones, along two axes.
  for (int rotation = 0; rotation < 3; ++rotation) {
    SumChoice sum = halving(ranks, 1, 2);
    const auto digits = static_cast<int>(sum_digits(ranks).size());
    for (int digit = 0; digit < digits; ++digit)
      sum.ways.push_back({digit % 2, 1 + (digits - digit) / 2});
    ways.push_back({sum, rotation});
  }
  return ways;
}

Schedules schedules_of(const Way& way, std::int64_t count) {
  Schedules schedules;
  for (int rank = 0; rank < way.sum.place.ranks; ++rank)
    schedules.push_back(sum_schedule(way.sum, rank, count, way.rotation));
  return schedules;
}

Buffers random_buffers(int ranks, std::int64_t count) {
  Buffers buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    const CounterRng rng(5, RandomUse::kSynth, static_cast<std::uint32_t>(rank), 1);
    auto& buffer = buffers.emplace_back();
    for (std::int64_t i = 0; i < count; ++i)
      buffer.push_back(2 * rng.uniform(static_cast<std::uint64_t>(i)) - 1);
  }
  return buffers;
}

// |sum - exact| <= (n - 1) u sum |x| for any order of n additions, u = 2^-24, to first order.
void check_sums(const Buffers& in, const Buffers& out) {
  for (std::size_t i = 0; i < in[0].size(); ++i) {
    double exact = 0, magnitude = 0;
    for (const auto& buffer : in) {
      exact += buffer[i];
      magnitude += std::abs(buffer[i]);
    }
    const double bound = 1.001 * static_cast<double>(in.size() - 1) * 0x1p-24 * magnitude;
    CHECK(std::abs(out[0][i] - exact) <= bound);
  }
}

// All ranks have the same bits, which do not depend on the order of time.
void check_schedules(const Way& way, std::int64_t count) {
  CAPTURE(name_of(way.sum.algorithm));
  CAPTURE(way.sum.place.ranks);
  CAPTURE(way.sum.place.per_node);
  CAPTURE(way.sum.parts);
  CAPTURE(way.rotation);
  CAPTURE(count);
  const Schedules schedules = schedules_of(way, count);
  const Buffers in = random_buffers(way.sum.place.ranks, count);
  Buffers first;
  for (std::uint32_t order = 0; order < 2; ++order) {
    Machine machine(schedules, in);
    REQUIRE(machine.run(order));
    if (order == 0) check_sums(in, first = machine.buffers());
    for (const auto& buffer : machine.buffers()) CHECK(buffer == first[0]);
  }
}

TEST_CASE("every schedule sums every element to the same bits on all ranks, in any order of time") {
  int compared = 0;
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (const Way& way : ways_of(ranks))
      for (const std::int64_t count : {0, 1, 5, 37}) {
        check_schedules(way, count);
        ++compared;
      }
  CHECK(compared > 1000);
}

TEST_CASE("parts in any rotation sum every element on tori, whatever ranks share a node") {
  int compared = 0;
  for (const int ranks : {2 * 2 * 6, 3 * 3 * 3, 4 * 4 * 2, 4 * 3 * 3, 4 * 4 * 4})
    for (const int per_node : {1, 2, 4, 3})
      for (int parts = 1; parts <= 3; ++parts)
        for (int rotation = 0; rotation < 3; ++rotation) {
          check_schedules({halving(ranks, per_node, parts), rotation}, 203);
          ++compared;
        }
  CHECK(compared == 5 * 4 * 9);
}

// Ranks of a torus, the first axis the fastest.
int axis_of(int a, int b, const std::array<int, 3>& extents) {
  int axis = -1;
  for (int i = 0, stride = 1; i < 3; stride *= extents[static_cast<std::size_t>(i++)])
    if (a / stride % extents[static_cast<std::size_t>(i)] !=
        b / stride % extents[static_cast<std::size_t>(i)])
      axis = axis < 0 ? i : 3;
  return axis;
}

TEST_CASE("in each round the three parts send along three axes of a cube-like torus") {
  using Extents = std::array<int, 3>;
  for (const Extents& extents : {Extents{2, 2, 2}, Extents{4, 4, 4}, Extents{8, 8, 8}}) {
    const int ranks = extents[0] * extents[1] * extents[2];
    const auto schedule = sum_schedule(halving(ranks, 1, 3), ranks / 2, 3 * ranks);
    CHECK(schedule.size() == static_cast<std::size_t>(2 * std::lround(std::log2(ranks))));
    for (const SumRound& round : schedule) {
      REQUIRE(round.sends.size() == 3);
      std::array<int, 3> used{};
      for (const SumPiece& piece : round.sends)
        ++used.at(static_cast<std::size_t>(axis_of(ranks / 2, piece.rank, extents)));
      CHECK(used == std::array{1, 1, 1});
    }
  }
  // Longer axes come first: the largest rounds still go to neighbours along three axes.
  for (const Extents& extents : {Extents{4, 2, 2}, Extents{4, 4, 2}, Extents{16, 8, 8}}) {
    const int ranks = extents[0] * extents[1] * extents[2];
    const auto round = sum_schedule(halving(ranks, 1, 3), 0, 3 * ranks).at(0);
    CHECK(round.sends.at(0).rank == 1);
    CHECK(round.sends.at(1).rank == extents[0]);
    CHECK(round.sends.at(2).rank == extents[0] * extents[1]);
  }
}

TEST_CASE("with several ranks per node, parts differ only between nodes") {
  const auto rounds = sum_schedule(halving(32, 4, 3), 0, 3200);
  REQUIRE(rounds.size() == 10);
  CHECK(rounds.at(0).sends == std::vector<SumPiece>{{1, 1600, 3200}});
  CHECK(rounds.at(1).sends == std::vector<SumPiece>{{2, 800, 1600}});
  CHECK(rounds.at(2).sends == std::vector<SumPiece>{{4, 133, 266}, {8, 399, 533}, {16, 666, 800}});
}

std::int64_t sent_by(const std::vector<SumRound>& rounds) {
  std::int64_t sent = 0;
  for (const SumRound& round : rounds)
    for (const SumPiece& piece : round.sends) sent += piece.hi - piece.lo;
  return sent;
}

TEST_CASE("schedules have the rounds and send the elements that their costs count") {
  using enum SumAlgorithm;
  struct Row {
    SumAlgorithm algorithm;
    int ranks;
    std::size_t rounds;     // of the rank with most
    std::int64_t elements;  // sent by the rank that sends most, of 5040
  };
  const std::vector<Row> rows = {
      {kHalvingDoubling, 8, 6, 2 * 7 * 630},
      {kHalvingDoubling, 7, 6, 2 * 6 * 720},
      {kHalvingDoubling, 12, 8, 2 * 11 * 420},
      {kHalvingDoubling, 5040, 26, 2 * 5039},
      {kRing, 8, 14, 2 * 7 * 630},
      {kRing, 7, 12, 2 * 6 * 720},
      {kRecursiveDoubling, 8, 3, 3 * 5040},
      {kRecursiveDoubling, 7, 4, 3 * 5040},
      {kBinomialTree, 8, 6, 3 * 5040},
  };
  for (const Row& row : rows) {
    CAPTURE(name_of(row.algorithm));
    CAPTURE(row.ranks);
    std::size_t rounds = 0;
    std::int64_t sent = 0;
    for (int rank = 0; rank < std::min(row.ranks, 16); ++rank) {
      const auto schedule = sum_schedule({row.algorithm, {row.ranks, 1}}, rank, 5040);
      rounds = std::max(rounds, schedule.size());
      sent = std::max(sent, sent_by(schedule));
    }
    CHECK(rounds == row.rounds);
    CHECK(sent == row.elements);
  }
}

TEST_CASE("two levels send only shares between nodes, and the nearest ranks exchange most") {
  std::int64_t outside = 0;
  for (const SumRound& round : sum_schedule({SumAlgorithm::kTwoLevel, {12, 4}}, 5, 1200))
    for (const SumPiece& piece : round.sends)
      if (piece.rank / 4 != 1) outside += piece.hi - piece.lo;
  CHECK(outside == 2 * 2 * 100);
  const auto near_first = sum_schedule(halving(8, 1, 1), 0, 1200);
  CHECK(near_first.at(0).sends == std::vector<SumPiece>{{1, 600, 1200}});
  CHECK(near_first.at(1).sends == std::vector<SumPiece>{{2, 300, 600}});
  const auto rotated = sum_schedule(halving(8, 1, 1), 0, 1200, 1);
  CHECK(rotated.at(0).sends == std::vector<SumPiece>{{2, 600, 1200}});
  CHECK(rotated.at(2).sends == std::vector<SumPiece>{{1, 150, 300}});
}

TEST_CASE("sum_schedule: on a torus the nearest partners get the largest messages") {
  // 4 x 8 nodes, numbered along the first axis: 1 and 2 along it, then 1, 2 and 4 along the other.
  SumChoice sum = halving(32, 1, 2);
  sum.ways = {{0, 1}, {0, 2}, {1, 1}, {1, 2}, {1, 4}};
  const auto rounds = sum_schedule(sum, 0, 64 * 32);
  std::vector<std::vector<int>> partners(2);
  for (std::size_t k = 0; k < 5; ++k) {
    REQUIRE(rounds.at(k).sends.size() == 2);
    for (std::size_t part = 0; part < 2; ++part)
      partners[part].push_back(rounds[k].sends[part].rank);
  }
  CHECK(partners[0] == std::vector<int>{1, 4, 2, 8, 16});
  CHECK(partners[1] == std::vector<int>{4, 1, 8, 2, 16});
}

}  // namespace
}  // namespace halomesh
