// SPDX-License-Identifier: Apache-2.0
// The dense layer split over its input on any cut against naive loops in double precision.
#include "src/nn/layers/dense.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "test/harness/dense_reference.hpp"
#include "test/harness/layer_check.hpp"

namespace halomesh {
namespace {

LayerCase make_case(const Shape& src, std::int64_t out, const PartGrid& grid, std::int64_t batch) {
  LayerCase test;
  test.name = fmt::format("dense {} to {} on {}, batch {}", src, out, to_string(grid), batch);
  test.make_layer = [out] { return std::make_unique<Dense>(out); };
  test.cut.src_shapes = {src};
  test.cut.grid = grid;
  test.cut.batch = batch;
  test.reference = dense_reference;
  test.linear = true;
  test.repeat = true;
  return test;
}

TEST_CASE("dense layers equal naive loops on any cut") {
  std::int64_t moved = 0;
  for (std::int64_t batch : {1, 3})
    for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{2, 1, 1}, PartGrid{1, 3, 1},
                                 PartGrid{1, 1, 4}, PartGrid{2, 2, 1}, PartGrid{2, 3, 3}}) {
      moved += expect_layer(make_case({6, 4, 3, 5}, 7, grid, batch)).moved;
      moved += expect_layer(make_case({32, 2, 2, 2}, 16, grid, batch)).moved;
      moved += expect_layer(make_case({9, 1, 1, 1}, 4, grid, batch)).moved;
    }
  CHECK(moved > 0);
}

TEST_CASE("dense layers read and write inside wider spans") {
  for (std::int64_t batch : {1, 2})
    for (const Spatial& margin : {Spatial{1, 0, 0}, Spatial{0, 1, 2}, Spatial{1, 1, 1}}) {
      LayerCase test = make_case({5, 4, 4, 3}, 3, {2, 2, 1}, batch);
      test.cut.src_margin = margin;
      expect_layer(test);
      test.cut.src_diff_wanted = false;
      expect_layer(test);
      test.cut.training = false;
      expect_layer(test);
    }
}

TEST_CASE("every weight is held once and the bias by the owner of the output") {
  // fc1 of CosmoFlow on 4x4x1 parts: 16 disjoint blocks of 1/16 of the weight.
  const Dense dense(128);
  const std::vector<Shape> src{{512, 4, 4, 4}};
  CutRequest request;
  request.src_shapes = src;
  request.grid = {4, 4, 1};
  const LayerCut cut = cut_layer(dense, request);
  std::vector<Box> blocks;
  std::int64_t biases = 0;
  for (const LayerContext& context : cut.contexts) {
    const ParameterSlice slice = dense.parameter_slice(0, context.boxes, src);
    CHECK(slice.out == Range{0, 128});
    blocks.push_back(slice.in);
    CHECK(blocks.back().volume() == 512 * 4);
    biases += dense.parameter_slice(1, context.boxes, src).in.volume();
  }
  CHECK(blocks.size() == 16);
  CHECK(is_partition(blocks, src[0]));
  CHECK(biases == 1);
  CHECK(dense.parameter_slice(1, cut.contexts[0].boxes, src) == dense.parameters(src)[1].whole());
  std::int64_t parameters = 0;
  for (const ParameterGeometry& p : dense.parameters(src)) parameters += p.volume();
  CHECK(parameters == 4194432);
  CHECK(dense.parameters(src)[0].fan_in == 32768);
  CHECK(dense.parameters(src)[0].fan_out == 128);
  CHECK(dense.forward_flops(src) == 2 * 4194304);
}

TEST_CASE("a cut on which no part could add the bias exactly once is refused") {
  const Dense dense(4);
  const std::vector<Shape> src{{2, 3, 1, 1}};
  const Box whole = Box::whole({4, 1, 1, 1}), block{{0, 0, 0, 0}, {2, 1, 1, 1}};
  CHECK_THROWS_AS(dense.parameter_slice(1, {{Box{}}, Box{}, whole}, src), Error);
  const Box half{{0, 0, 0, 0}, {2, 1, 1, 1}};
  CHECK_THROWS_AS(dense.parameter_slice(1, {{block}, whole, half}, src), Error);
  CHECK(dense.parameter_slice(1, {{block}, whole, whole}, src) == dense.parameters(src)[1].whole());
  CHECK(dense.parameter_slice(1, {{block}, whole, Box{}}, src).empty());
  CHECK_THROWS_AS(Dense(0), Error);
  CHECK_THROWS_AS(dense.dst_shape(std::vector<Shape>{src[0], src[0]}), Error);
}

}  // namespace
}  // namespace halomesh
