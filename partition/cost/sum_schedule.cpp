// SPDX-License-Identifier: Apache-2.0
// The rounds of sums over ranks: see sum_schedule.hpp.
#include "partition/cost/sum_schedule.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>
#include <utility>

namespace halomesh {
namespace {

using Rounds = std::vector<SumRound>;

struct Elements {
  std::int64_t lo, hi;
  /// Block `index` of `count`.
  Elements block(int index, int count) const {
    const std::int64_t n = hi - lo;
    return {lo + n * index / count, lo + n * (index + 1) / count};
  }
};

/// The ranks first, first + stride, ... among which this one is number `digit`.
struct Group {
  int first = 0, stride = 1, count = 1, digit = 0;
  int rank(int index) const { return first + (index % count + count) % count * stride; }
};

Group group_of(int rank, int stride, int count) {
  const int digit = rank / stride % count;
  return {rank - digit * stride, stride, count, digit};
}

void add_piece(std::vector<SumPiece>& pieces, int rank, const Elements& elements) {
  if (elements.lo < elements.hi) pieces.push_back({rank, elements.lo, elements.hi});
}

/// Adds the blocks first, ..., first + count - 1 of `whole`, where block 0 follows the last.
void add_blocks(std::vector<SumPiece>& pieces, int rank, const Elements& whole, int first,
                int count, int blocks) {
  first %= blocks;
  const int end = std::min(first + count, blocks), rest = first + count - end;
  add_piece(pieces, rank, {whole.block(first, blocks).lo, whole.block(end - 1, blocks).hi});
  if (rest > 0) add_piece(pieces, rank, {whole.lo, whole.block(rest - 1, blocks).hi});
}

/// Each round halves the elements that are left, until each rank has the sum of its block.
Elements scatter_halving(const Group& group, const Elements& whole, Rounds& rounds) {
  for (int left = group.count; left > 1;) {
    const int skip = (left + 1) / 2, moved = left - skip;
    SumRound round;
    round.add = true;
    add_blocks(round.sends, group.rank(group.digit + skip), whole, group.digit + skip, moved,
               group.count);
    add_blocks(round.receives, group.rank(group.digit - skip), whole, group.digit, moved,
               group.count);
    rounds.push_back(std::move(round));
    left = skip;
  }
  return whole.block(group.digit, group.count);
}

/// As scatter_halving(), but with one block per round between neighbours.
Elements scatter_ring(const Group& group, const Elements& whole, Rounds& rounds) {
  const int p = group.count;
  for (int k = 0; k + 1 < p; ++k) {
    SumRound round;
    round.add = true;
    add_blocks(round.sends, group.rank(group.digit + 1), whole, group.digit - 1 - k + p, 1, p);
    add_blocks(round.receives, group.rank(group.digit - 1), whole, group.digit - 2 - k + 2 * p, 1,
               p);
    rounds.push_back(std::move(round));
  }
  return whole.block(group.digit, p);
}

/// The sum_digits() of `count` ranks that are `stride` apart.
std::vector<Group> digits_of(int rank, int stride, int count) {
  std::vector<Group> digits;
  for (const int factor : sum_digits(count)) {
    digits.push_back(group_of(rank, stride, factor));
    stride *= factor;
  }
  return digits;
}

/// Orders the digits by hops, nearest partners first: each round moves half as much as the one
/// before, and its messages occupy as many links as they have hops. Among equally near partners,
/// each rotation begins with another axis.
std::vector<Group> nearest_first(const std::vector<Group>& digits, const SumChoice& sum,
                                 int rotation) {
  const int axes = sum_axes(sum);
  std::vector<std::size_t> order(digits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto rank_of = [&](const SumWay& way) {
      return std::pair(way.hops, (way.axis + rotation) % axes);
    };
    return rank_of(sum.ways[a]) < rank_of(sum.ways[b]);
  });
  std::vector<Group> sorted;
  sorted.reserve(digits.size());
  for (const std::size_t i : order) sorted.push_back(digits[i]);
  return sorted;
}

/// Rotates the digits by a third further for each rotation; the first third is the largest. On a
/// cube-like torus whose longest axes come first, the three rotations begin with the three axes.
std::vector<Group> rotated(std::vector<Group> digits, const SumChoice& sum, int rotation) {
  if (!sum.ways.empty()) return nearest_first(digits, sum, rotation);
  const std::ptrdiff_t count = std::ssize(digits);
  std::rotate(digits.begin(), digits.begin() + (rotation % 3 * count + 2) / 3, digits.end());
  return digits;
}

Elements scatter_digits(const std::vector<Group>& digits, Elements whole, Rounds& rounds) {
  for (const Group& digit : digits) whole = scatter_halving(digit, whole, rounds);
  return whole;
}

void append(std::vector<SumPiece>& pieces, const std::vector<SumPiece>& others) {
  pieces.insert(pieces.end(), others.begin(), others.end());
}

/// Scatters `parts` of `whole` side by side, each with the digits in another order. All parts have
/// equally many rounds.
void scatter_parts(const std::vector<Group>& digits, const Elements& whole, int rotation,
                   const SumChoice& sum, Rounds& rounds) {
  const std::size_t begin = rounds.size();
  for (int part = 0; part < sum.parts; ++part) {
    Rounds own;
    scatter_digits(rotated(digits, sum, rotation + part), whole.block(part, sum.parts), own);
    rounds.resize(begin + own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      SumRound& round = rounds[begin + i];
      round.add = true;
      append(round.sends, own[i].sends);
      append(round.receives, own[i].receives);
    }
  }
}

/// Undoes the reduce-scatter of rounds [begin, end) by sending in the opposite direction.
void gather_backwards(std::size_t begin, std::size_t end, Rounds& rounds) {
  for (std::size_t i = end; i-- > begin;)
    rounds.push_back({rounds[i].receives, rounds[i].sends, false});
}

/// Exchanges whole buffers between partners. The odd ones among the first ranks beyond a power of 2
/// give their buffers to their neighbours and get the sum from them.
void double_whole(const Group& group, const Elements& whole, Rounds& rounds) {
  int power = 1;
  while (power * 2 <= group.count) power *= 2;
  const int excess = group.count - power;
  const int digit = group.digit;
  const bool paired = digit < 2 * excess, gives = paired && digit % 2 == 1;
  const auto one_way = [&](bool sends, int partner, bool add) {
    SumRound round;
    round.add = add;
    add_piece(sends ? round.sends : round.receives, group.rank(partner), whole);
    rounds.push_back(std::move(round));
  };
  if (paired) one_way(gives, gives ? digit - 1 : digit + 1, true);
  const int index = paired ? digit / 2 : digit - excess;
  for (int distance = 1; distance < power && !gives; distance *= 2) {
    const int other = index ^ distance;
    const int partner = group.rank(other < excess ? 2 * other : other + excess);
    SumRound round;
    round.add = true;
    add_piece(round.sends, partner, whole);
    add_piece(round.receives, partner, whole);
    rounds.push_back(std::move(round));
  }
  if (paired) one_way(!gives, gives ? digit - 1 : digit + 1, false);
}

void binomial(const Group& group, const Elements& whole, Rounds& rounds) {
  const std::size_t begin = rounds.size();
  for (int distance = 1; distance < group.count; distance *= 2) {
    SumRound round;
    round.add = true;
    const bool gives = (group.digit & distance) != 0;
    if (gives)
      add_piece(round.sends, group.rank(group.digit - distance), whole);
    else if (group.digit + distance < group.count)
      add_piece(round.receives, group.rank(group.digit + distance), whole);
    rounds.push_back(std::move(round));
    if (gives) break;
  }
  gather_backwards(begin, rounds.size(), rounds);
}

void sum_over(const Group& group, const Elements& whole, int rotation, const SumChoice& sum,
              Rounds& rounds) {
  const std::size_t begin = rounds.size();
  const bool two_level = sum.algorithm == SumAlgorithm::kTwoLevel;
  assert(!two_level || sum.across != SumAlgorithm::kTwoLevel);
  switch (two_level ? sum.across : sum.algorithm) {
    case SumAlgorithm::kRecursiveDoubling:
      return double_whole(group, whole, rounds);
    case SumAlgorithm::kBinomialTree:
      return binomial(group, whole, rounds);
    case SumAlgorithm::kRing:
      scatter_ring(group, whole, rounds);
      break;
    case SumAlgorithm::kHalvingDoubling:
    case SumAlgorithm::kTwoLevel:
      scatter_parts(digits_of(group.rank(group.digit), group.stride, group.count), whole, rotation,
                    sum, rounds);
      break;
  }
  gather_backwards(begin, rounds.size(), rounds);
}

}  // namespace

std::vector<SumRound> sum_schedule(const SumChoice& sum, int rank, std::int64_t count,
                                   int rotation) {
  const int ranks = sum.place.ranks, inner = first_level(sum.algorithm, sum.place);
  assert(rank >= 0 && rank < ranks && ranks % inner == 0 && sum.parts >= 1);
  Rounds rounds;
  const Elements share = scatter_digits(digits_of(rank, 1, inner), {0, count}, rounds);
  const std::size_t scattered = rounds.size();
  sum_over(group_of(rank, inner, ranks / inner), share, rotation, sum, rounds);
  gather_backwards(0, scattered, rounds);
  std::erase_if(rounds, [](const SumRound& r) { return r.sends.empty() && r.receives.empty(); });
  return rounds;
}

}  // namespace halomesh
