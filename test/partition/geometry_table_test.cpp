// SPDX-License-Identifier: Apache-2.0
// The table of a geometry: loads against sums done by hand, and what is printed.
#include "partition/geometry_table.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "error.hpp"
#include "test/partition/pure_layers.hpp"

namespace halomesh {
namespace {

/// conv, pool, conv, dense on 8^3 x 2, cut in two along d.
struct Fixture {
  WindowLayer conv1{kKernel2, 3}, pool{kPool2, 0}, conv2{kKernel2, 4};
  SplitLayer dense{5};
  std::vector<GraphNode> nodes{
      {"conv1", &conv1, {0}}, {"pool", &pool, {1}}, {"conv2", &conv2, {2}}, {"dense", &dense, {3}}};
  ModelGeometry geometry{Shape{2, 8, 8, 8}, nodes, {2, 1, 1}};
};

TEST_CASE("loads of both parts, by hand") {
  const Fixture f;
  const GeometryTable table(f.geometry);
  const std::vector<PartLoad>& loads = table.loads();
  REQUIRE(loads.size() == 2);
  // Part 0 needs the first plane of part 1: 8x8x2 floats of the input, 4x4x3 of the pooled tensor.
  CHECK(loads[0].input_halo_bytes == 4 * 8 * 8 * 2);
  CHECK(loads[0].received_bytes == 4 * 4 * 4 * 3);
  CHECK(loads[0].messages == 1);
  CHECK(loads[0].sent_bytes == 0);
  CHECK(loads[0].halo_bytes() == 512 + 192);
  CHECK(loads[1].halo_bytes() == 0);
  CHECK(loads[1].sent_bytes == 4 * 4 * 4 * 3);
  // Five partial sums go from part 1 to part 0.
  CHECK(loads[1].partial_sums_sent_bytes == 20);
  CHECK(loads[0].partial_sums_received_bytes == 20);
  CHECK(loads[0].partial_sums_sent_bytes == 0);
  CHECK(loads[0].input_bytes == 4 * 5 * 8 * 8 * 2);
  // conv1 4x8x8x3, pool 3x4x4x3 (one plane of halo), conv2 2x4x4x4, dense 5.
  CHECK(loads[0].tensor_bytes == 4 * (768 + 144 + 128 + 5));
  CHECK(loads[1].tensor_bytes == 4 * (768 + 96 + 128 + 5));
  CHECK(loads[0].parameters == 3 * 2 * 8 + 3 + 4 * 3 * 8 + 4 + 5 * 128);
}

TEST_CASE("flops are divided by what each part computes") {
  const Fixture f;
  CHECK(GeometryTable(f.geometry).imbalance() == 0);
  const GeometryTable even(f.geometry, {1000, 10, 100, 50});
  CHECK(even.loads()[0].flops == doctest::Approx(580));
  CHECK(even.imbalance() == doctest::Approx(1));
  // 3 planes pooled from 7 on two parts: 2 and 1.
  const WindowLayer pool{kPool2, 0};
  const ModelGeometry uneven(Shape{1, 6, 6, 6}, {{"pool", &pool, {0}}}, {2, 1, 1});
  CHECK(GeometryTable(uneven, {90}).imbalance() == doctest::Approx(4.0 / 3));
}

TEST_CASE("the busiest part has the most halo, then the most neighbours") {
  const Fixture f;
  CHECK(GeometryTable(f.geometry).busiest_part() == 0);
  // One convolution on 4x4x1 parts: parts with both neighbours after them tie; 5 lies within.
  const WindowLayer conv{kKernel2, 1};
  const ModelGeometry g(Shape{1, 16, 16, 16}, {{"conv", &conv, {0}}}, {4, 4, 1});
  CHECK(GeometryTable(g).busiest_part() == 5);
}

TEST_CASE("the printed table has the numbers; a part that does not exist is refused") {
  const Fixture f;
  const GeometryTable table(f.geometry);
  std::ostringstream out;
  table.print(out, 0);
  const std::string text = out.str();
  for (const char* expected :
       {"part 0 of 2x1x1", "[0,4)x[0,8)x[0,8)x2", "[0,5)x[0,8)x[0,8)x2", "conv1/weight",
        "3 x 2x2x2x2", "dense/weight", "704", "512", "192"}) {
    CAPTURE(expected);
    CHECK(text.find(expected) != std::string::npos);
  }
  CHECK_THROWS_AS(table.print(out, 2), UsageError);
  CHECK_THROWS_AS(table.print(out, -1), UsageError);
}

}  // namespace
}  // namespace halomesh
