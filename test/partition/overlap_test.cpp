// SPDX-License-Identifier: Apache-2.0
// The order of chunks: local planes first, each plane exactly once.
#include "partition/overlap.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "partition/partition.hpp"
#include "partition/window.hpp"

namespace halomesh {
namespace {

Box planes(std::int64_t lo, std::int64_t hi) { return Box{{0, lo, 0, 0}, {8, hi, 4, 4}}; }

std::function<bool(const Box&)> within(std::int64_t lo, std::int64_t hi) {
  return [=](const Box& b) { return b.lo[kD] >= lo && b.hi[kD] <= hi; };
}

using Chunks = std::vector<Chunk>;

TEST_CASE("chunks against a table") {
  CHECK(order_chunks(planes(4, 8), within(0, 99)) == Chunks{{planes(4, 8), false}});
  CHECK(order_chunks(planes(4, 8), within(0, 7)) ==
        Chunks{{planes(4, 7), false}, {planes(7, 8), true}});
  CHECK(order_chunks(planes(4, 8), within(5, 99)) ==
        Chunks{{planes(5, 8), false}, {planes(4, 5), true}});
  CHECK(order_chunks(planes(4, 8), within(5, 7)) ==
        Chunks{{planes(5, 7), false}, {planes(4, 5), true}, {planes(7, 8), true}});
  CHECK(order_chunks(planes(4, 8), within(50, 50)) ==
        Chunks{{planes(4, 6), true}, {planes(6, 8), true}});
  CHECK(order_chunks(planes(4, 7), within(50, 50)) == Chunks{{planes(4, 7), true}});
  CHECK(order_chunks(planes(0, 32), within(50, 50)).size() == 4);
  CHECK(order_chunks(planes(4, 5), within(4, 5)) == Chunks{{planes(4, 5), false}});
  CHECK(order_chunks(Box{}, within(0, 99)).empty());
}

TEST_CASE("for windows of every width the chunks cover the block once, local ones first") {
  int compared = 0;
  for (std::int64_t kernel = 1; kernel <= 7; ++kernel)
    for (std::int64_t pad = 0; pad < kernel; ++pad)
      for (std::int64_t extent = 1; extent <= 6; ++extent) {
        const Shape src{2, 24, 4, 4};
        const Window window{AxisWindow{kernel, 1, 1, pad, kernel - 1 - pad}, AxisWindow{},
                            AxisWindow{}};
        const Box dst{{0, 8, 0, 0}, {2, 8 + extent, 4, 4}};  // owned alike
        const auto is_local = [&](const Box& b) {
          return dst.contains(needed_box(window, b, src));
        };
        const Chunks chunks = order_chunks(dst, is_local);
        REQUIRE(chunks.size() <= 4);
        std::int64_t volume = 0;
        bool remote_seen = false;
        for (std::size_t i = 0; i < chunks.size(); ++i) {
          REQUIRE(dst.contains(chunks[i].dst));
          REQUIRE(is_local(chunks[i].dst) == !chunks[i].needs_remote);
          REQUIRE_FALSE((remote_seen && !chunks[i].needs_remote));
          remote_seen = remote_seen || chunks[i].needs_remote;
          volume += chunks[i].dst.volume();
          for (std::size_t j = 0; j < i; ++j)
            REQUIRE(intersect(chunks[i].dst, chunks[j].dst).empty());
        }
        REQUIRE(volume == dst.volume());
        ++compared;
      }
  CHECK(compared == 28 * 6);
}

// Every element of the plan is sent in exactly one round, and in the first whose chunk needs it.
TEST_CASE("rounds of a halo follow the chunks that need them") {
  const Shape src{2, 13, 11, 6};
  const AxisWindow axis{3, 1, 1, 1, 1};
  const Window window{axis, axis, axis};
  const PartGrid grid{2, 3, 1};
  const Partition owned = block_partition(src, grid);
  std::vector<Box> needed;
  std::vector<std::vector<Box>> chunk_needs;
  for (const Box& part : owned) {
    needed.push_back(needed_box(window, part, src));
    const auto is_local = [&](const Box& b) { return part.contains(needed_box(window, b, src)); };
    auto& boxes = chunk_needs.emplace_back();
    for (const Chunk& chunk : order_chunks(part, is_local))
      if (chunk.needs_remote) boxes.push_back(needed_box(window, chunk.dst, src));
  }
  const TransferPlan plan = plan_transfers(owned, needed);
  const std::vector<TransferPlan> rounds = split_into_rounds(plan, chunk_needs);
  REQUIRE(rounds.size() > 1);
  int compared = 0;
  for (const Transfer& t : plan.transfers())
    for (std::int64_t d = t.box.lo[kD]; d < t.box.hi[kD]; ++d) {
      const Box plane = with_d_range(t.box, d, d + 1);
      const auto& wanted = chunk_needs[static_cast<std::size_t>(t.dst)];
      const auto first = std::find_if(wanted.begin(), wanted.end(), [&](const Box& box) {
        return box.lo[kD] <= d && d < box.hi[kD];
      });
      for (std::size_t k = 0; k < rounds.size(); ++k) {
        std::int64_t found = 0;
        for (const Transfer& s : rounds[k].transfers())
          if (s.src == t.src && s.dst == t.dst && s.box.contains(plane)) ++found;
        const bool here = k == static_cast<std::size_t>(first - wanted.begin());
        CHECK(found == (here ? 1 : 0));
        ++compared;
      }
    }
  CHECK(compared > 100);
}

TEST_CASE("a round can leave after the last chunk that it takes planes of") {
  const std::vector<Chunk> chunks{
      {planes(2, 4), false}, {planes(4, 6), true}, {planes(0, 2), true}};
  const std::vector<TransferPlan> rounds{
      TransferPlan({{0, 1, planes(3, 5)}, {1, 0, planes(0, 9)}}),  // the first two chunks
      TransferPlan({{0, 1, planes(2, 4)}, {0, 2, planes(3, 4)}}),  // the first alone
      TransferPlan({{0, 2, planes(0, 1)}, {0, 1, planes(5, 6)}}),  // the last, and before it
      TransferPlan({{1, 0, planes(0, 9)}}), TransferPlan()};       // nothing of part 0
  CHECK(chunks_before_sends(rounds, chunks, 0) == std::vector<std::size_t>{2, 1, 3, 0, 0});
  CHECK(chunks_before_sends(rounds, {}, 3) == std::vector<std::size_t>{0, 0, 0, 0, 0});
}

TEST_CASE("what no chunk needs is sent in the first round; without chunks there is one round") {
  const TransferPlan plan({{0, 1, planes(2, 5)}});
  const auto rounds = split_into_rounds(plan, {{}, {planes(3, 4), planes(4, 9)}});
  REQUIRE(rounds.size() == 2);
  CHECK(rounds[0].transfers() == std::vector<Transfer>{{0, 1, planes(2, 3)}, {0, 1, planes(3, 4)}});
  CHECK(rounds[1].transfers() == std::vector<Transfer>{{0, 1, planes(4, 5)}});
  CHECK(split_into_rounds(plan, {{}, {}}).size() == 1);
}

}  // namespace
}  // namespace halomesh
