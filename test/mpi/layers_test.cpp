// SPDX-License-Identifier: Apache-2.0
// Layers cut over ranks equal their serial fp64 references: output, input and parameter gradients,
// with halos and partial sums as real messages. The cases are a subset of those run in one process.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/dense.hpp"
#include "test/harness/convolution_reference.hpp"
#include "test/harness/dense_reference.hpp"
#include "test/harness/mpi_layer_check.hpp"
#include "test/harness/pooling_reference.hpp"

namespace halomesh {
namespace {

LayerCase base_case(const std::string& name, const std::vector<Shape>& src, const PartGrid& grid,
                    std::int64_t batch) {
  LayerCase test;
  test.name = fmt::format("{} of {} on {}, batch {}", name, src.front(), to_string(grid), batch);
  test.cut.src_shapes = src;
  test.cut.grid = grid;
  test.cut.batch = batch;
  test.linear = true;
  return test;
}

LayerCase convolution_case(const ConvolutionOptions& options, const Shape& src,
                           const PartGrid& grid, std::int64_t batch) {
  LayerCase test = base_case(fmt::format("convolution {}{}{}", options.window.kernel[0],
                                         options.window.kernel[1], options.window.kernel[2]),
                             {src}, grid, batch);
  test.make_layer = [options] { return std::make_unique<Convolution>(options); };
  test.reference = convolution_reference(options.window.resolve(src.spatial()));
  return test;
}

WindowOptions same(std::int64_t kernel, std::int64_t stride = 1) {
  return WindowOptions::cube(kernel, stride, PaddingKind::kSame);
}

// Kernels 1-5, strides 1-3, dilation 2, padding of all kinds, one-sided and different by axis.
std::vector<WindowOptions> windows() {
  return {same(1),
          same(2),
          same(3),
          same(5),
          same(3, 2),
          same(4, 3),
          WindowOptions::cube(3, 1, PaddingKind::kValid),
          WindowOptions::cube(2, 2, PaddingKind::kValid),
          {{3, 2, 1}, {1, 1, 1}, {2, 1, 1}, PaddingKind::kSame, {}, {}},
          {{2, 3, 4}, {1, 2, 1}, {1, 2, 1}, PaddingKind::kExplicit, {1, 0, 3}, {0, 4, 0}}};
}

// Every window of the list meets every size, and all grids of that size in turn.
TEST_CASE("convolution over MPI equals the serial one on every cut") {
  for_comms("convolution", [](const Comm& comm, Findings& findings) {
    const std::vector<PartGrid> grids = grids_of(comm.size());
    std::int64_t moved = 0;
    std::size_t number = 0;
    for (const WindowOptions& window : windows())
      for (int repetition = 0; repetition < 3; ++repetition, ++number) {
        const Shape src =
            std::array{Shape{3, 9, 7, 8}, Shape{1, 7, 10, 9}, Shape{2, 12, 6, 7}}[number % 3];
        LayerCase test = convolution_case({1 + static_cast<std::int64_t>(number % 4), window}, src,
                                          grids[number % grids.size()],
                                          1 + static_cast<std::int64_t>(number % 2));
        test.seed = number;
        if (number % 4 == 3) test.cut.src_margin = {1, 2, 1};
        moved += expect_layer(comm, test, findings);
      }
    findings.expect((moved > 0) == (comm.size() > 1),
                    [&] { return fmt::format("{} moved", moved); });
  });
}

TEST_CASE("convolution over MPI with empty parts and halos wider than a neighbour's block") {
  for_comms("convolution of few planes", {3, 4, 6}, [](const Comm& comm, Findings& findings) {
    for (const PartGrid& grid : grids_of(comm.size())) {
      expect_layer(comm, convolution_case({2, same(5)}, {2, 4, 4, 4}, grid, 1), findings);
      expect_layer(comm, convolution_case({2, same(2)}, {1, 2, 2, 2}, grid, 2), findings);
      expect_layer(comm, convolution_case({2, same(3, 3)}, {2, 10, 5, 4}, grid, 1), findings);
    }
  });
}

TEST_CASE("convolution over MPI: one rank owns the input, another the output") {
  for_comms("redistribution", {2, 3, 5}, [](const Comm& comm, Findings& findings) {
    const Shape src{2, 4, 5, 3};
    LayerCase test = convolution_case({3, same(2)}, src, {comm.size(), 1, 1}, 2);
    const auto parts = static_cast<std::size_t>(comm.size());
    test.cut.src_owned = {Partition(parts)};
    test.cut.src_owned[0].front() = Box::whole(src);
    test.cut.dst_owned = Partition(parts);
    test.cut.dst_owned.back() = Box::whole({3, 4, 5, 3});
    findings.expect_equal(expect_layer(comm, test, findings), 2 * 2 * src.volume(),
                          "elements moved, forward and backward");
  });
}

TEST_CASE("pooling over MPI equals naive loops on every cut") {
  for_comms("pooling", [](const Comm& comm, Findings& findings) {
    const std::vector<WindowOptions> kinds = {
        same(2, 2),
        same(3, 2),
        same(3, 1),
        WindowOptions::cube(2, 3, PaddingKind::kValid),
        {{4, 2, 3}, {1, 2, 3}, {1, 1, 1}, PaddingKind::kExplicit, {3, 0, 1}, {0, 1, 2}}};
    for (const PartGrid& grid : grids_of(comm.size()))
      for (const WindowOptions& window : kinds)
        for (const PoolingKind kind : {PoolingKind::kMax, PoolingKind::kAverage}) {
          LayerCase test = base_case("pooling", {{3, 7, 6, 8}}, grid, 2);
          test.make_layer = [=] { return make_pooling(kind, window); };
          test.reference = pooling_reference(kind, window);
          test.linear = kind != PoolingKind::kMax;
          expect_layer(comm, test, findings);
        }
  });
}

TEST_CASE("dense layers over MPI equal naive loops on every cut") {
  for_comms("dense", [](const Comm& comm, Findings& findings) {
    for (const PartGrid& grid : grids_of(comm.size()))
      for (const Shape& src : {Shape{6, 4, 3, 5}, Shape{32, 2, 2, 2}, Shape{9, 1, 1, 1}}) {
        LayerCase test = base_case("dense", {src}, grid, 3);
        test.make_layer = [] { return std::make_unique<Dense>(7); };
        test.reference = dense_reference;
        expect_layer(comm, test, findings);
      }
  });
}

ReferenceOutput add_reference(const ReferenceInput& in) {
  ReferenceOutput out{Estimate(in.diff_dst.values.size()), {}, {}};
  for (const GlobalTensor& src : in.src) {
    Estimate& diff = out.diff_src.emplace_back(src.values.size());
    for (std::size_t i = 0; i < src.values.size(); ++i) {
      out.dst.add(i, src.values[i]);
      diff.values[i] = in.diff_dst.values[i];
    }
  }
  out.dst.terms = static_cast<double>(in.src.size());
  return out;
}

// The second input is owned by other parts than need it: all of it moves.
TEST_CASE("a sum over MPI of tensors that are cut differently") {
  for_comms("sum", {2, 3, 4, 6}, [](const Comm& comm, Findings& findings) {
    const Shape src{3, 6, 5, 4};
    LayerCase test = base_case("sum", {src, src}, {comm.size(), 1, 1}, 2);
    test.make_layer = [] { return std::make_unique<Add>(); };
    test.reference = add_reference;
    test.cut.src_owned = {block_partition(src, {comm.size(), 1, 1}),
                          block_partition(src, {1, 1, comm.size()})};
    const std::int64_t moved = expect_layer(comm, test, findings);
    findings.expect(moved > 0, [&] { return fmt::format("{} moved", moved); });
  });
}

}  // namespace
}  // namespace halomesh
