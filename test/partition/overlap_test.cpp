// The order of chunks: local planes first, each plane exactly once.
#include "partition/overlap.hpp"

#include <doctest/doctest.h>

#include <vector>

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
  CHECK(order_chunks(planes(4, 8), within(50, 50)) == Chunks{{planes(4, 8), true}});
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
        REQUIRE(chunks.size() <= 3);
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

}  // namespace
}  // namespace halomesh
