// SPDX-License-Identifier: Apache-2.0
// Polls from within parallel loops: by the thread that called the layer, and often.
#include "src/nn/kernels/poll.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <vector>

#include "src/nn/kernels/convolution_block.hpp"

namespace halomesh {
namespace {

/// Counts polls, and those of any thread but the one that made it.
struct Polls {
  int all = 0, of_others = 0;
  std::thread::id caller = std::this_thread::get_id();
  std::function<void()> count = [this] {
    ++all;
    of_others += std::this_thread::get_id() != caller ? 1 : 0;
  };
};

TEST_CASE("a poll reaches the pass from one thread of a loop, not more often than it should") {
  Polls polls;
  const Pass pass{.training = true, .poll = &polls.count};
  Poll poll(pass), none;
#pragma omp parallel for schedule(static, 1) num_threads(2)
  for (int thread = 0; thread < 2; ++thread) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
      poll();
      none();
    }
  }
  CHECK(polls.all >= 1);
  CHECK(polls.all <= 401);
  CHECK(polls.of_others == 0);
}

// Each of these passes is one call of a kernel of some milliseconds.
TEST_CASE("gradients of pooled convolutions and Winograd's forward pass poll within their loops") {
  const Box in = Box::whole({64, 32, 32, 32}), out = Box::whole({64, 16, 16, 16});
  ConvolutionBlock layer({.filters = 64,
                          .window = WindowOptions::cube(3, 1, PaddingKind::kSame),
                          .kernels = GradientKernels::kSparse});
  LayerContext context;
  context.src_shapes = {in.shape()};
  context.dst_shape = out.shape();
  context.boxes = {{in}, out, out};
  context.src_spans = {in};
  context.src_types = {DataType::kFloat32};
  context.dst_span = out;
  context.dst_chunks = {out};
  context.src_diff_wanted = {true};
  std::vector<std::vector<float>> memory;
  std::vector<ParameterView> views;
  for (const ParameterGeometry& geometry : layer.parameters(context.src_shapes)) {
    const auto size = static_cast<std::size_t>(geometry.whole().volume());
    for (int i = 0; i < 2; ++i) memory.emplace_back(size);
    views.push_back({geometry, geometry.whole(), memory.end()[-2], memory.end()[-1]});
  }
  layer.prepare(context, views);
  layer.load_parameters();
  Tensor src(in, 1), dst(out, 1), diff_dst(out, 1), diff_src(in, 1);
  const std::vector<AnyConstView> srcs{src.any_view()};
  const auto check = [&](const auto& run) {
    Polls polls;
    const Pass pass{.training = true, .poll = &polls.count};
    run(pass);
    CHECK(polls.all >= 10);
    CHECK(polls.of_others == 0);
  };
  check([&](const Pass& pass) { layer.forward(pass, srcs, dst.any_view(), out); });
  check([&](const Pass& pass) {
    layer.backward_data(pass, {srcs, dst.any_view()}, diff_dst.any_view(), 0, diff_src.any_view());
  });
  check([&](const Pass& pass) { layer.backward_parameters(pass, srcs, diff_dst.any_view()); });
}

}  // namespace
}  // namespace halomesh
