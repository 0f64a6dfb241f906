// SPDX-License-Identifier: Apache-2.0
// Transfer plans: literal halos, and the properties that must hold for any boxes.
#include "partition/transfer_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "partition/partition.hpp"
#include "partition/window.hpp"
#include "rng.hpp"

namespace halomesh {
namespace {

Box planes(std::int64_t lo, std::int64_t hi) { return Box{{0, lo, 0, 0}, {1, hi, 1, 1}}; }

using Transfers = std::vector<Transfer>;

TEST_CASE("kernel 2 with SAME padding: one plane from the next part only") {
  const std::vector<Box> owned{planes(0, 4), planes(4, 8), planes(8, 12)};
  const std::vector<Box> needed{planes(0, 5), planes(4, 9), planes(8, 12)};
  const TransferPlan plan = plan_transfers(owned, needed);
  CHECK(plan.transfers() == Transfers{{1, 0, planes(4, 5)}, {2, 1, planes(8, 9)}});
  CHECK(plan.received_volume(0) == 1);
  CHECK(plan.sent_volume(0) == 0);
  CHECK(plan.received_volume(2) == 0);
  CHECK(plan.sent_volume(2) == 1);
}

TEST_CASE("a halo wider than a neighbour's block comes from several parts") {
  const std::vector<Box> owned{planes(0, 1), planes(1, 2), planes(2, 3), planes(3, 4)};
  const std::vector<Box> needed{planes(0, 4), planes(0, 4), Box{}, planes(2, 4)};
  CHECK(plan_transfers(owned, needed).transfers() == Transfers{{0, 1, planes(0, 1)},
                                                               {1, 0, planes(1, 2)},
                                                               {2, 0, planes(2, 3)},
                                                               {2, 1, planes(2, 3)},
                                                               {2, 3, planes(2, 3)},
                                                               {3, 0, planes(3, 4)},
                                                               {3, 1, planes(3, 4)}});
}

TEST_CASE("empty parts, one part and aligned boxes need nothing") {
  CHECK(plan_transfers({planes(0, 4)}, {planes(0, 4)}).empty());
  CHECK(plan_transfers({planes(0, 2), planes(2, 4)}, {planes(0, 2), planes(2, 4)}).empty());
  CHECK(plan_transfers({planes(0, 4), Box{}}, {planes(0, 4), Box{}}).empty());
  CHECK(plan_transfers({}, {}).empty());
}

TEST_CASE("a gather is the same kind of plan") {
  const TransferPlan plan =
      plan_transfers({planes(0, 2), planes(2, 3), planes(3, 4)}, {Box{}, planes(0, 4), Box{}});
  CHECK(plan.transfers() == Transfers{{0, 1, planes(0, 2)}, {2, 1, planes(3, 4)}});
}

/// A random cut and window; part of the cases have fewer planes than parts.
struct RandomCase {
  Shape shape;
  std::vector<Box> owned, needed;
};

RandomCase random_case(std::uint64_t number) {
  const CounterRng rng(number, RandomUse::kOrder);
  std::uint64_t index = 0;
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(rng.block(index++)[0]) % (most - least + 1);
  };
  RandomCase c;
  c.shape = {draw(1, 3), draw(1, 9), draw(1, 9), draw(1, 9)};
  const PartGrid grid{draw(1, 4), draw(1, 3), draw(1, 3)};
  c.owned = block_partition(c.shape, grid);
  Window window;
  for (AxisWindow& w : window) {
    w.kernel = draw(1, 5);
    w.stride = draw(1, 3);
    w.dilation = draw(1, 2);
    w.pad_before = draw(0, w.reach() - 1);
    w.pad_after = w.reach() - 1 - w.pad_before;
  }
  const Spatial dst = dst_extents(window, c.shape.spatial());
  for (const Box& box : block_partition({c.shape.c, dst[0], dst[1], dst[2]}, grid))
    c.needed.push_back(needed_box(window, box, c.shape));
  return c;
}

using Element = std::array<std::int64_t, 4>;

template <class Visit>
void visit_elements(const Box& b, const Visit& visit) {
  for (std::int64_t c = b.lo[0]; c < b.hi[0]; ++c)
    for (std::int64_t d = b.lo[1]; d < b.hi[1]; ++d)
      for (std::int64_t h = b.lo[2]; h < b.hi[2]; ++h)
        for (std::int64_t w = b.lo[3]; w < b.hi[3]; ++w) visit(Element{c, d, h, w});
}

TEST_CASE("each needed element is owned or arrives exactly once, and nothing else arrives") {
  std::int64_t arrived = 0, cases = 0;
  for (std::uint64_t number = 0; number < 200; ++number, ++cases) {
    const RandomCase c = random_case(number);
    const TransferPlan plan = plan_transfers(c.owned, c.needed);
    std::vector<std::map<Element, int>> received(c.owned.size());
    for (const Transfer& t : plan.transfers()) {
      REQUIRE(t.src != t.dst);
      REQUIRE_FALSE(t.box.empty());
      REQUIRE(c.owned[static_cast<std::size_t>(t.src)].contains(t.box));
      visit_elements(t.box,
                     [&](const Element& e) { ++received[static_cast<std::size_t>(t.dst)][e]; });
    }
    for (std::size_t p = 0; p < c.owned.size(); ++p) {
      CAPTURE(number);
      std::int64_t missing = 0;
      const Box own = c.owned[p];
      visit_elements(c.needed[p], [&](const Element& e) {
        const Box one{e, {e[0] + 1, e[1] + 1, e[2] + 1, e[3] + 1}};
        if (!own.contains(one) && received[p][e] != 1) ++missing;
        if (own.contains(one) && received[p].count(e) != 0) ++missing;
      });
      REQUIRE(missing == 0);
      const std::int64_t foreign = c.needed[p].volume() - intersect(c.needed[p], own).volume();
      REQUIRE(plan.received_volume(static_cast<std::int64_t>(p)) == foreign);
      arrived += foreign;
    }
  }
  CHECK(cases == 200);
  CHECK(arrived > 10000);
}

TEST_CASE("reversed twice is itself, and what one sends the other receives") {
  std::int64_t transfers = 0;
  for (std::uint64_t number = 0; number < 200; ++number) {
    const RandomCase c = random_case(number);
    const TransferPlan plan = plan_transfers(c.owned, c.needed), back = plan.reversed();
    REQUIRE(back.reversed().transfers() == plan.transfers());
    REQUIRE(std::is_sorted(back.transfers().begin(), back.transfers().end()));
    std::int64_t sent = 0, received = 0;
    for (std::int64_t p = 0; p < std::ssize(c.owned); ++p) {
      REQUIRE(plan.sent_volume(p) == back.received_volume(p));
      sent += plan.sent_volume(p);
      received += plan.received_volume(p);
    }
    REQUIRE(sent == received);
    transfers += std::ssize(plan.transfers());
  }
  CHECK(transfers > 1000);
}

}  // namespace
}  // namespace halomesh
