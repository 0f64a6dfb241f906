// SPDX-License-Identifier: Apache-2.0
// The bytes of cuts against the formula, the choice against all choices, and refusals.
#include "partition/choose_cuts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "error.hpp"
#include "partition/model_geometry.hpp"
#include "test/partition/pure_layers.hpp"

namespace halomesh {
namespace {

constexpr AxisWindow kOne{1, 1, 1, 0, 0};

std::string list_of(const std::vector<std::string>& layers, const std::vector<TensorCut>& cuts) {
  std::string text;
  for (std::size_t i = 0; i < layers.size(); ++i)
    text += (i == 0 ? "" : ",") + layers[i] + ":" + to_string(cuts[i]);
  return text;
}

/// A layer that is cut in space, and one that may be cut by channels.
struct TwoLayers {
  explicit TwoLayers(const AxisWindow& window = kOne) : late(window, 256, true) {}
  PointLayer act;
  WindowLayer late;
  std::vector<GraphNode> nodes{{"act", &act, {0}}, {"late", &late, {1}}};
  Shape input{32, 16, 16, 16};
  ModelGeometry cut(const PartGrid& grid, const std::string& cuts) const {
    return {input, nodes, grid, parse_cuts(cuts)};
  }
};

TEST_CASE("s blocks x c groups move 2 I (1/s - 1/p) and 2 (W/c) (1 - 1/s) elements to a part") {
  const TwoLayers net;
  const std::int64_t inputs = net.input.volume(), weights = 256 * 32 + 256;
  int compared = 0;
  for (const PartGrid grid :
       {PartGrid{4, 1, 1}, PartGrid{2, 2, 1}, PartGrid{2, 2, 2}, PartGrid{4, 4, 1}})
    for (const TensorCut& cut : all_cuts(grid)) {
      const std::int64_t p = grid.count(), s = cut.space.count(), c = cut.groups;
      CAPTURE(to_string(grid));
      CAPTURE(to_string(cut));
      const ModelGeometry g = net.cut(grid, list_of({"late"}, {cut}));
      const LayerChoice& choice = g.cuts()[1];
      CHECK(choice.cut.space.count() == s);
      CHECK(choice.bytes.exchanged == 4 * 2 * (inputs / s - inputs / p));
      CHECK(choice.bytes.summed == 4 * 2 * (weights / c) * (s - 1) / s);
      // The plan that the exchange carries out brings the same, forward.
      for (std::int64_t part = 0; part < p; ++part)
        CHECK(g.tensors()[1].distribute.received_volume(part) == inputs / s - inputs / p);
      // As many slices as groups, each held by the parts of all blocks.
      for (const ParameterPlacement& parameter : g.parameters()) {
        REQUIRE(std::ssize(parameter.holders) == c);
        for (const SliceHolders& holders : parameter.holders) {
          CHECK(std::ssize(holders.parts) == s);
          CHECK(holders.slice.volume() * c == parameter.geometry.volume());
        }
      }
      ++compared;
    }
  CHECK(compared == 3 + 4 + 8 + 9);
}

TEST_CASE("with a halo, it is gathered from all channels of the blocks beyond") {
  const TwoLayers net(kKernel2);
  const ModelGeometry g = net.cut({2, 2, 1}, "late:2x2");
  const LayerChoice& choice = g.cuts()[1];
  REQUIRE(choice.cut == TensorCut{{2, 1, 1}, 2});  // along d, whose planes are larger runs
  // Half of the input and a plane after it, less the part's own quarter.
  const std::int64_t plane = 16 * 16 * 32;
  CHECK(choice.bytes.exchanged == 4 * 2 * (8 * plane + plane - 4 * plane));
  CHECK(choice.bytes.summed == 4 * (256 * 32 * 8 + 256) / 2);
  CHECK(g.tensors()[1].distribute.received_volume(0) == 5 * plane);
  CHECK(g.tensors()[1].distribute.received_volume(2) == 4 * plane);
  CHECK(g.layers()[1].boxes[1].src_needed[0] == Box{{0, 0, 0, 0}, {32, 9, 16, 16}});
}

/// Three late convolutions in a row, and what holds their choice.
struct Chain {
  WindowLayer first{kKernel2, 32, true}, a{kKernel2, 64, true}, b{kKernel2, 128, true},
      c{kKernel2, 128, true};
  WindowLayer pool{kPool2, 0};
  std::vector<GraphNode> nodes{
      {"first", &first, {0}}, {"pool", &pool, {1}}, {"a", &a, {2}}, {"b", &b, {3}}, {"c", &c, {4}}};
  Shape input{4, 16, 16, 16};
};

// Of the whole network, as choose_cuts() defines it.
double seconds(const ModelGeometry& g) {
  const NetworkCost network = cut_network();
  double sum = 0;
  for (std::size_t l = 0; l < g.layers().size(); ++l) {
    const LayerChoice& choice = g.cuts()[l];
    if (choice.bytes.exchanged > 0)
      sum += 2 * network.between_nodes.latency_s +
             static_cast<double>(choice.bytes.exchanged) * network.between_nodes.s_per_byte;
    double slice = 0;
    for (const ParameterPlacement& p : g.parameters())
      if (p.layer == l) slice += 4.0 * static_cast<double>(p.slice_volume(0));
    const SumPlace place{static_cast<int>(choice.cut.space.count()), 1};
    sum += sum_seconds(fastest_sum(place, slice, network), place, slice, network);
  }
  return sum;
}

TEST_CASE("in a chain the choice costs least of all, and mixed cuts less than either kind") {
  const Chain net;
  int compared = 0, mixed = 0;
  for (const PartGrid grid : {PartGrid{2, 1, 1}, PartGrid{2, 2, 1}, PartGrid{2, 2, 2}}) {
    const ModelGeometry best(net.input, net.nodes, grid);
    const double least = seconds(best);
    for (const LayerChoice& choice : best.cuts())
      mixed += choice.cut.groups > 1 && choice.cut.space.count() > 1 ? 1 : 0;
    for (const TensorCut& a : all_cuts(grid))
      for (const TensorCut& b : all_cuts(grid))
        for (const TensorCut& c : all_cuts(grid)) {
          if (a.groups > 4) continue;  // of 64 channels
          const ModelGeometry other(net.input, net.nodes, grid,
                                    parse_cuts(list_of({"a", "b", "c"}, {a, b, c})));
          CHECK(least <= seconds(other) * (1 + 1e-12));
          ++compared;
        }
    CHECK(least <= seconds(ModelGeometry(net.input, net.nodes, grid, parse_cuts("channels"))));
    CHECK(least < seconds(ModelGeometry(net.input, net.nodes, grid, parse_cuts("space"))));
  }
  CHECK(compared == 2 * 2 * 2 + 4 * 4 * 4 + 7 * 8 * 8);
  CHECK(mixed > 0);
}

TEST_CASE("a network that is no chain: each layer after those that it reads") {
  const WindowLayer late{kOne, 256, true};
  const PointLayer act, sum;
  // A skip around two layers: 256 channels of 2^3 voxels against 65,792 parameters.
  const std::vector<GraphNode> nodes{
      {"act", &act, {0}}, {"one", &late, {1}}, {"two", &late, {2}}, {"sum", &sum, {2, 3}}};
  const ModelGeometry g({256, 2, 2, 2}, nodes, {2, 1, 1});
  CHECK(g.cuts()[0].cut == TensorCut{{2, 1, 1}, 1});
  CHECK(g.cuts()[1].cut == TensorCut{{1, 1, 1}, 2});
  CHECK(g.cuts()[2].cut == TensorCut{{1, 1, 1}, 2});
  CHECK(g.cuts()[3].cut == TensorCut{{2, 1, 1}, 1});
  for (const TensorGeometry& t : g.tensors()) CHECK(is_partition(t.owned, t.shape));
  // A quarter of each of its inputs comes from the other part, and goes back.
  CHECK(g.cuts()[3].bytes.exchanged == 4 * 2 * (2 * 256 * 8 / 4));
}

std::string refusal(const std::string& cuts) {
  const Chain net;
  try {
    ModelGeometry(net.input, net.nodes, {2, 2, 2}, parse_cuts(cuts));
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing was thrown";
}

TEST_CASE("cuts that are not possible are refused by name, with those that are") {
  const std::string for_a = " | possible for a on 2x2x2 parts: 8x1, 4x2, 2x4";
  CHECK(
      refusal("conv9:4x2") ==
      "--cuts conv9: the network has no such layer | layers that can be cut by channels: a, b, c");
  CHECK(refusal("a:4x4") == "--cuts a:4x4: 16 blocks, but the grid 2x2x2 has 8 parts" + for_a);
  CHECK(refusal("a:1x8") ==
        "--cuts a:1x8: its 64 channels are fewer than 16 for each of 8 groups" + for_a);
  CHECK(refusal("pool:4x2") ==
        "--cuts pool:4x2: this kind of layer is not cut by channels | possible for pool on 2x2x2 "
        "parts: 8x1");
  CHECK(refusal("first:4x2") ==
        "--cuts first:4x2: it reads the network's input, which is cut in space only | possible for "
        "first on 2x2x2 parts: 8x1");
  CHECK(refusal("a:8x1,b:2x4,c:1x8") == "nothing was thrown");
}

TEST_CASE("layers that a list does not name are cut in space") {
  const Chain net;
  const ModelGeometry g(net.input, net.nodes, {2, 2, 2}, parse_cuts("b:1x8"));
  CHECK(g.cuts()[3].cut == TensorCut{{1, 1, 1}, 8});
  for (const std::size_t l : {0U, 1U, 2U, 4U}) CHECK(g.cuts()[l].cut == TensorCut{{2, 2, 2}, 1});
}

}  // namespace
}  // namespace halomesh
