// SPDX-License-Identifier: Apache-2.0
// The geometry of whole networks: which part owns, needs and holds what, derived from declarations
// alone.
#include "partition/model_geometry.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error.hpp"
#include "test/partition/pure_layers.hpp"

namespace halomesh {
namespace {

Box block(std::int64_t channels, Range d, Range h, Range w) {
  return Box{{0, d.lo, h.lo, w.lo}, {channels, d.hi, h.hi, w.hi}};
}

using Parts = std::vector<std::int64_t>;

/// conv, pool, dense, pointwise on 8^3 x 2.
struct SmallNetwork {
  WindowLayer conv{kKernel2, 3}, pool{kPool2, 0};
  SplitLayer dense{5};
  PointLayer act;
  std::vector<GraphNode> nodes{
      {"conv", &conv, {0}}, {"pool", &pool, {1}}, {"dense", &dense, {2}}, {"act", &act, {3}}};
  Shape input{2, 8, 8, 8};
};

TEST_CASE("a small network on 2x2x1 parts, box by box") {
  const SmallNetwork net;
  const ModelGeometry g(net.input, net.nodes, {2, 2, 1});
  REQUIRE(g.tensors().size() == 5);
  CHECK(g.tensors()[0].name == "input");
  CHECK(g.tensors()[1].shape == Shape{3, 8, 8, 8});
  CHECK(g.tensors()[2].shape == Shape{3, 4, 4, 4});
  CHECK(g.tensors()[3].shape == Shape{5, 1, 1, 1});
  const TensorGeometry& input = g.tensors()[0];
  CHECK(input.owned[0] == block(2, {0, 4}, {0, 4}, {0, 8}));
  CHECK(input.needed[0] == block(2, {0, 5}, {0, 5}, {0, 8}));  // corner included
  CHECK(input.needed[1] == block(2, {0, 5}, {4, 8}, {0, 8}));
  CHECK(input.needed[3] == block(2, {4, 8}, {4, 8}, {0, 8}));
  CHECK(input.span[0] == input.needed[0]);
  // Two faces of 4x8 and an edge of 8, two channels each.
  CHECK(input.distribute.received_volume(0) == 2 * (32 + 32 + 8));
  CHECK(g.tensors()[1].distribute.empty());
  CHECK(g.tensors()[2].distribute.empty());
}

TEST_CASE("partial sums are computed by all parts that own input, and added on part 0") {
  const SmallNetwork net;
  const ModelGeometry g(net.input, net.nodes, {2, 2, 1});
  const TensorGeometry& sums = g.tensors()[3];
  const Box whole = Box::whole(sums.shape);
  CHECK(sums.partial_sums);
  for (std::size_t p = 0; p < 4; ++p) {
    CHECK(sums.produced[p] == whole);
    CHECK(sums.owned[p] == (p == 0 ? whole : Box{}));
    CHECK(g.layers()[2].boxes[p].src_needed[0] == g.tensors()[2].owned[p]);
  }
  CHECK(sums.broadcast.transfers() ==
        std::vector<Transfer>{{0, 1, whole}, {0, 2, whole}, {0, 3, whole}});
  CHECK_FALSE(g.tensors()[4].partial_sums);
  CHECK(g.tensors()[4].produced[1].empty());
}

TEST_CASE("holders of parameters follow from the boxes") {
  const SmallNetwork net;
  const ModelGeometry g(net.input, net.nodes, {2, 2, 1});
  REQUIRE(g.parameters().size() == 3);
  const ParameterPlacement &weight = g.parameters()[0], &dense = g.parameters()[2];
  CHECK(weight.layer_name == "conv");
  REQUIRE(weight.holders.size() == 1);
  CHECK(weight.holders[0].parts == Parts{0, 1, 2, 3});
  REQUIRE(dense.holders.size() == 4);
  for (std::size_t p = 0; p < 4; ++p) {
    CHECK(dense.holders[p].parts == Parts{static_cast<std::int64_t>(p)});
    CHECK(dense.slices[p] == ParameterSlice{{0, 5}, g.tensors()[2].owned[p]});
    CHECK(dense.slice_volume(static_cast<std::int64_t>(p)) == 5 * 3 * 2 * 2 * 4);
  }
  CHECK(g.parameter_count() == 3 * 2 * 8 + 3 + 5 * 3 * 64);
  CHECK(g.parameter_count(1) == 3 * 2 * 8 + 3 + 5 * 3 * 16);
}

TEST_CASE("owners align with what the only consumer needs, so that nothing moves") {
  // 6 planes pooled to 3 on two parts: {2, 1} pooled planes, hence {4, 2} of the input, not {3, 3}.
  const WindowLayer pool{kPool2, 0};
  const ModelGeometry g(Shape{1, 6, 6, 6}, {{"pool", &pool, {0}}}, {2, 1, 1});
  CHECK(g.tensors()[0].owned[0] == block(1, {0, 4}, {0, 6}, {0, 6}));
  CHECK(g.tensors()[0].owned[1] == block(1, {4, 6}, {0, 6}, {0, 6}));
  CHECK(g.tensors()[0].distribute.empty());
  // A plane that no window pools must still be owned: blocks with remainder, and one plane moves.
  const ModelGeometry odd(Shape{1, 7, 6, 6}, {{"pool", &pool, {0}}}, {2, 1, 1});
  CHECK(odd.tensors()[0].owned[0] == block(1, {0, 4}, {0, 6}, {0, 6}));
  CHECK(odd.tensors()[0].owned[1] == block(1, {4, 7}, {0, 6}, {0, 6}));
}

TEST_CASE("more parts than planes: parts with empty boxes hold nothing") {
  const SmallNetwork net;
  const ModelGeometry g(Shape{2, 2, 2, 2}, net.nodes, {3, 1, 1});
  // conv's output has two planes, which two parts compute; pooled to one plane, it is part 0's.
  CHECK(g.tensors()[1].owned[0] == block(3, {0, 1}, {0, 2}, {0, 2}));
  CHECK(g.tensors()[1].owned[1] == block(3, {1, 2}, {0, 2}, {0, 2}));
  CHECK(g.tensors()[1].owned[2].empty());
  CHECK(g.tensors()[2].owned[0] == Box::whole(g.tensors()[2].shape));
  CHECK(g.tensors()[2].owned[1].empty());
  CHECK(g.tensors()[1].distribute.transfers() ==
        std::vector<Transfer>{{1, 0, block(3, {1, 2}, {0, 2}, {0, 2})}});
  CHECK(g.layers()[0].boxes[2].src_needed[0].empty());
  CHECK(g.parameter_count(2) == 0);
  CHECK(g.parameters()[0].holders[0].parts == Parts{0, 1});
}

TEST_CASE("a pooling to one voxel does not leave the layers before it to one part") {
  const WindowLayer pool{kPool2, 0};
  const ModelGeometry g(Shape{1, 4, 4, 4}, {{"pool1", &pool, {0}}, {"pool2", &pool, {1}}},
                        {2, 2, 1});
  for (std::size_t p = 0; p < 4; ++p) {
    CHECK(g.tensors()[0].owned[p].volume() == 16);
    CHECK(g.tensors()[1].owned[p].volume() == 2);
  }
  CHECK(g.tensors()[1].distribute.received_volume(0) == 6);
  CHECK(g.tensors()[0].distribute.empty());
}

TEST_CASE("a tensor with two consumers spans the hull of their needs and keeps plain blocks") {
  const WindowLayer wide{{3, 1, 1, 1, 1}, 2};
  const PointLayer act, sum;
  const std::vector<GraphNode> nodes{
      {"act", &act, {0}}, {"wide", &wide, {1}}, {"sum", &sum, {1, 2}}};
  const ModelGeometry g(Shape{2, 8, 8, 8}, nodes, {4, 1, 1});
  CHECK(g.tensors()[1].consumers == std::vector<std::size_t>{1, 2});
  CHECK(g.tensors()[1].owned[1] == block(2, {2, 4}, {0, 8}, {0, 8}));
  CHECK(g.tensors()[1].needed[1] == block(2, {1, 5}, {0, 8}, {0, 8}));
  CHECK(g.layers()[2].boxes[1].src_needed[0] == block(2, {2, 4}, {0, 8}, {0, 8}));
  CHECK(g.layers()[2].boxes[1].src_needed[1] == block(2, {2, 4}, {0, 8}, {0, 8}));
}

TEST_CASE("on every grid owned boxes are partitions and the output is computed once") {
  const SmallNetwork net;
  int compared = 0;
  for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{2, 1, 1}, PartGrid{3, 1, 1},
                               PartGrid{1, 3, 2}, PartGrid{2, 2, 2}, PartGrid{9, 1, 2}}) {
    const ModelGeometry g(Shape{2, 9, 7, 8}, net.nodes, grid);
    for (const TensorGeometry& t : g.tensors()) {
      CHECK(is_partition(t.owned, t.shape));
      if (!t.partial_sums) CHECK(t.produced == t.owned);
      for (std::size_t p = 0; p < t.owned.size(); ++p) {
        CHECK(t.span[p].contains(t.needed[p]));
        CHECK(t.span[p].contains(t.owned[p]));
        ++compared;
      }
    }
    CHECK(g.parameter_count() == 3 * 2 * 8 + 3 + 5 * 3 * 4 * 3 * 4);
  }
  CHECK(compared == 5 * (1 + 2 + 3 + 6 + 8 + 18));
}

Box channels_of(const Shape& shape, std::int64_t lo, std::int64_t hi) {
  Box box = Box::whole(shape);
  box.lo[kC] = lo;
  box.hi[kC] = hi;
  return box;
}

/// Two convolutions that may be cut by channels behind one that may not: I = 4 * 4^3 elements
/// against W = 64 * 4 * 2^3 + 64 for the first, 64 * 4^3 against 64 * 64 * 2^3 + 64 for the second.
struct LateNetwork {
  WindowLayer conv{kKernel2, 4}, pool{kPool2, 0}, late{kKernel2, 64, true};
  SplitLayer dense{5};
  std::vector<GraphNode> nodes{{"conv", &conv, {0}},
                               {"pool", &pool, {1}},
                               {"late1", &late, {2}},
                               {"late2", &late, {3}},
                               {"dense", &dense, {4}}};
  Shape input{2, 8, 8, 8}, wide{64, 4, 4, 4};
};

TEST_CASE("late convolutions cut by channels gather their input and hold rows of their weights") {
  const LateNetwork net;
  const ModelGeometry g(net.input, net.nodes, {2, 1, 1});
  const Box low = channels_of(net.wide, 0, 32), high = channels_of(net.wide, 32, 64);
  const TensorGeometry &pooled = g.tensors()[2], &late1 = g.tensors()[3], &late2 = g.tensors()[4];
  CHECK(pooled.owned ==
        Partition{block(4, {0, 2}, {0, 4}, {0, 4}), block(4, {2, 4}, {0, 4}, {0, 4})});
  CHECK(pooled.distribute.transfers() ==
        std::vector<Transfer>{{0, 1, pooled.owned[0]}, {1, 0, pooled.owned[1]}});
  for (const TensorGeometry* t : {&late1, &late2}) {
    CHECK(t->owned == Partition{low, high});
    CHECK(t->produced == t->owned);
  }
  CHECK(late1.distribute.transfers() == std::vector<Transfer>{{0, 1, low}, {1, 0, high}});
  CHECK(late1.span[0] == Box::whole(net.wide));
  CHECK(late2.distribute.empty());
  CHECK(late2.span == late2.owned);
  REQUIRE(g.parameters().size() == 7);
  for (std::size_t i = 2; i <= 5; ++i) {
    const ParameterPlacement& p = g.parameters()[i];
    CHECK(p.slices[0] == ParameterSlice{{0, 32}, Box::whole(p.geometry.in)});
    CHECK(p.slices[1] == ParameterSlice{{32, 64}, Box::whole(p.geometry.in)});
    REQUIRE(p.holders.size() == 2);
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(p.holders[k].slice == p.slices[k]);
      CHECK(p.holders[k].parts == Parts{static_cast<std::int64_t>(k)});
    }
  }
  // The dense layer is split along the channels that its input is cut by.
  CHECK(g.parameters()[6].slices[1] == ParameterSlice{{0, 5}, high});
  CHECK(g.parameters()[0].holders[0].parts == Parts{0, 1});
  CHECK(g.parameter_count(0) == 4 * 2 * 8 + 4 + 32 * 4 * 8 + 32 + 32 * 64 * 8 + 32 + 5 * 32 * 64);
}

TEST_CASE("channels on grids of one, two and three axes; too many parts for them cut in space") {
  const LateNetwork net;
  const auto extents = [&](const PartGrid& grid) {
    const ModelGeometry g(net.input, net.nodes, grid, parse_cuts("channels"));
    std::vector<std::int64_t> channels;
    for (const Box& box : g.tensors()[4].owned) channels.push_back(box.extent(kC));
    for (const TensorGeometry& t : g.tensors()) CHECK(is_partition(t.owned, t.shape));
    return channels;
  };
  using Extents = std::vector<std::int64_t>;
  CHECK(extents({1, 1, 1}) == Extents{64});
  CHECK(extents({1, 2, 1}) == Extents{32, 32});
  CHECK(extents({1, 1, 3}) == Extents{32, 16, 16});
  CHECK(extents({2, 1, 2}) == Extents{16, 16, 16, 16});
  CHECK(extents({2, 2, 2}) == Extents(8, 64));  // less than a vector for each part
  const ModelGeometry g(net.input, net.nodes, {2, 2, 2}, parse_cuts("channels"));
  CHECK(g.tensors()[4].owned == block_partition(net.wide, {2, 2, 2}));
  REQUIRE(g.parameters()[4].holders.size() == 1);
  CHECK(g.parameters()[4].holders[0].parts.size() == 8);
}

TEST_CASE("channels are cut where the input has fewer elements than the parameters") {
  const AxisWindow one{1, 1, 1, 0, 0};
  const WindowLayer may{one, 1024, true}, may_not{one, 1024};
  const PointLayer act;
  const PartGrid grid{2, 1, 1};
  // 1024 filters of 64 channels and 1024 biases: 66,560 parameters.
  const auto owned = [&](const Shape& input, const LayerGeometry& late) {
    return ModelGeometry(input, {{"act", &act, {0}}, {"late", &late, {1}}}, grid)
        .tensors()[2]
        .owned;
  };
  const Shape fewer{64, 32, 16, 1}, same{64, 1040, 1, 1};
  CHECK(owned(fewer, may) == cut_partition({1024, 32, 16, 1}, grid, {{1, 1, 1}, 2}));
  CHECK(owned(same, may) == block_partition({1024, 1040, 1, 1}, grid));
  CHECK(owned(fewer, may_not) == block_partition({1024, 32, 16, 1}, grid));
  // The network's input is not gathered.
  const ModelGeometry first(fewer, {{"late", &may, {0}}, {"act", &act, {1}}}, grid);
  CHECK(first.tensors()[1].owned == block_partition({1024, 32, 16, 1}, grid));
  // 31 channels are not two vectors.
  const WindowLayer narrow{one, 31, true};
  CHECK(owned({4096, 3, 1, 1}, narrow) == block_partition({31, 3, 1, 1}, grid));
}

/// Holds a slice that overlaps its neighbour's.
class OverlappingSlices : public WindowLayer {
 public:
  OverlappingSlices() : WindowLayer({1, 1, 1, 0, 0}, 1) {}
  std::vector<ParameterGeometry> parameters(std::span<const Shape> src) const override {
    return {{"weight", 1, src[0], false, 0, 0}};
  }
  ParameterSlice parameter_slice(std::size_t, const LayerBoxes& boxes,
                                 std::span<const Shape> src) const override {
    ParameterSlice slice{{0, 1}, boxes.src_needed[0]};
    slice.in.hi[kD] = std::min(slice.in.hi[kD] + 1, src[0].d);
    return slice;
  }
};

template <class Call>
std::string what_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("invalid geometries are refused, naming the layer") {
  const WindowLayer big{{9, 1, 1, 0, 0}, 1};
  const auto build = [](const Shape& input, const std::vector<GraphNode>& nodes) {
    return what_of([&] { ModelGeometry(input, nodes, {2, 1, 1}); });
  };
  CHECK(build({1, 8, 8, 8}, {{"big", &big, {0}}}).find("layer big") == 0);
  const PointLayer act;
  CHECK(build({1, 8, 8, 8}, {{"early", &act, {1}}}).find("layer early reads tensor 1") == 0);
  CHECK(build({1, 0, 8, 8}, {{"act", &act, {0}}}).find("no elements") != std::string::npos);
  const SplitLayer dense{3};
  CHECK(build({1, 8, 8, 8}, {{"two", &dense, {0, 0}}}).find("several inputs") != std::string::npos);
  const OverlappingSlices overlapping;
  CHECK(build({1, 8, 8, 8}, {{"slices", &overlapping, {0}}}).find("overlapping slices") !=
        std::string::npos);
}

}  // namespace
}  // namespace halomesh
