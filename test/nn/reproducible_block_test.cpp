// SPDX-License-Identifier: Apache-2.0
// A reproducible convolution block and dense layer: the same bits from cut boxes as from the whole,
// from any number of threads, and from samples together or one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "partition/cuts.hpp"
#include "rng.hpp"
#include "src/nn/kernels/convolution_block.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/pack.hpp"
#include "test/harness/threads.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kBatch = 2;

/// Values of many magnitudes, so that the order of sums decides about bits.
std::vector<float> values_of(std::uint64_t seed, std::int64_t count) {
  const CounterRng rng(seed, RandomUse::kSynth);
  std::vector<float> values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i)
    values.push_back(
        std::ldexp(2 * rng.uniform(2 * i) - 1, -static_cast<int>(6 * rng.uniform(2 * i + 1))));
  return values;
}

bool same_bits(const float* a, const float* b, std::int64_t count) {
  return std::equal(a, a + count, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

/// A layer with its parameters; all tensors span the whole, so that parts need no exchange.
struct Network {
  Shape src, dst;
  std::vector<float> weight, bias, input, output_diff;
};

struct Results {
  Tensor dst, diff_src, state;
  ExactSums weight, bias;
  explicit Results(const Network& network)
      : dst(Box::whole(network.dst), kBatch),
        diff_src(Box::whole(network.src), kBatch),
        state(Box::whole(network.dst), kBatch, DataType::kUint8),
        weight(std::ssize(network.weight)),
        bias(std::ssize(network.bias)) {}
};

struct Case {
  std::int64_t kernel = 2, in = 16, filters = 32;
  Spatial extents{16, 16, 32};
};

std::unique_ptr<Layer> make_block(const Case& c) {
  ConvolutionBlockOptions options;
  options.filters = c.filters;
  options.window = WindowOptions::cube(c.kernel, 1, PaddingKind::kSame);
  options.kernels = GradientKernels::kReproducible;
  return std::make_unique<ConvolutionBlock>(options);
}

Network network_of(const Case& c) {
  Network network;
  network.src = {c.in, c.extents[0], c.extents[1], c.extents[2]};
  const auto layer = make_block(c);
  network.dst = layer->dst_shape(std::vector{network.src});
  const auto parameters = layer->parameters(std::vector{network.src});
  network.weight = values_of(1, parameters[0].volume());
  network.bias = values_of(2, parameters[1].volume());
  network.input = values_of(3, kBatch * network.src.volume());
  network.output_diff = values_of(4, kBatch * network.dst.volume());
  return network;
}

/// One step of samples `first` to `end` on the part that owns `owned`; what other parts would send
/// is taken from `whole`, unless that is null.
void run_part(const Case& c, Network& network, const Box& owned, std::int64_t first,
              std::int64_t end, const Results* whole, Results& results) {
  const bool few = c.in <= 8;
  const auto layer = make_block(c);
  const std::vector<Shape> shapes{network.src};
  LayerContext context;
  context.src_shapes = shapes;
  context.dst_shape = network.dst;
  context.boxes = boxes_of(*layer, shapes, {Box::whole(network.src)}, owned);
  context.boxes.diff_src = layer->whole_gradients()->gradient_box(owned, shapes);
  context.boxes.diff_dst_needed =
      layer->whole_gradients()->gradient_needs(context.boxes.diff_src, shapes);
  context.src_spans = {Box::whole(network.src)};
  context.dst_span = Box::whole(network.dst);
  const std::int64_t middle = (owned.lo[kD] + owned.hi[kD]) / 2;
  for (const Box& chunk :
       {with_d_range(owned, middle, owned.hi[kD]), with_d_range(owned, owned.lo[kD], middle)})
    if (!chunk.empty()) context.dst_chunks.push_back(chunk);
  context.src_types = {DataType::kFloat32};
  context.batch = end - first;
  context.src_diff_wanted = {!few};
  const auto geometries = layer->parameters(shapes);
  std::vector<ParameterView> views;
  for (std::size_t i = 0; i < 2; ++i) {
    ParameterView view{geometries[i], layer->parameter_slice(i, context.boxes, shapes), {}, {}};
    view.values = i == 0 ? network.weight : network.bias;
    view.exact = i == 0 ? results.weight.view() : results.bias.view();
    views.push_back(view);
  }
  layer->prepare(context, views);
  layer->load_parameters();
  const auto at = [&](std::vector<float>& values, const Shape& shape) {
    return View{values.data() + first * shape.volume(), Box::whole(shape), context.batch};
  };
  const auto part_of = [&](const Tensor& tensor) {
    const AnyView view = tensor.any_view();
    return AnyView{view.data + first * view.sample_bytes(), view.type, view.span, context.batch};
  };
  const Pass pass{true, 0, 0, first};
  const std::vector<AnyConstView> src{at(network.input, network.src)};
  for (const Box& chunk : context.dst_chunks)
    layer->forward(pass, src, part_of(results.dst), chunk);
  const AnyView diff = at(network.output_diff, network.dst);
  layer->backward_parameters(pass, src, diff);
  const AnyView state = layer->backward_state();
  const auto move = [&](AnyConstView from, const Box& box, AnyView to) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(context.batch * box.volume()));
    pack(from, box, bytes.data());
    unpack_copy(bytes.data(), box, to);
  };
  move(state, owned, part_of(results.state));
  if (few) return;
  if (whole != nullptr) {
    const Box& needed = context.boxes.diff_dst_needed;
    clear(state, state.span);
    move(part_of(whole->state), needed, state);
  }
  layer->backward_data(pass, {src, part_of(results.dst)}, diff, 0, part_of(results.diff_src));
}

std::int64_t expect_same(const Network& network, Results& got, Results& expected) {
  const std::int64_t dst = kBatch * network.dst.volume(), src = kBatch * network.src.volume();
  CHECK(same_bits(got.dst.view().data, expected.dst.view().data, dst));
  CHECK(same_bits(got.diff_src.view().data, expected.diff_src.view().data, src));
  CHECK(std::ranges::equal(got.weight.bins(), expected.weight.bins()));
  CHECK(std::ranges::equal(got.bias.bins(), expected.bias.bins()));
  return dst + src;
}

const std::vector<Case> kCases{
    {2, 16, 32}, {3, 16, 32}, {2, 4, 16}, {3, 4, 16}, {3, 32, 16, {8, 24, 8}}};

TEST_CASE("a reproducible block has the bits of the whole in any cut between cells") {
  std::int64_t compared = 0;
  for (const Case& c : kCases) {
    CAPTURE(c.kernel);
    CAPTURE(c.in);
    Network network = network_of(c);
    Results whole(network);
    run_part(c, network, Box::whole(network.dst), 0, kBatch, nullptr, whole);
    const ConstView diff_src = whole.diff_src.view();
    const std::int64_t size = kBatch * network.src.volume();
    CHECK((c.in <= 8) ==
          std::all_of(diff_src.data, diff_src.data + size, [](float x) { return x == 0; }));
    CHECK(std::all_of(whole.weight.bins().begin(),
                      whole.weight.bins().begin() + whole.weight.size(),
                      [](double x) { return std::isfinite(x); }));
    for (const PartGrid& grid : {PartGrid{2, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {4, 1, 2}}) {
      CAPTURE(to_string(grid));
      Results parts(network);
      for (std::int64_t part = 0; part < grid.count(); ++part)
        run_part(c, network, cut_box(network.dst, grid, {grid, 1}, part), 0, kBatch, &whole, parts);
      compared += expect_same(network, parts, whole);
    }
  }
  CHECK(compared > 1000000);
}

TEST_CASE("a reproducible block has the same bits on any number of threads and in any batch") {
  std::int64_t compared = 0;
  for (const Case& c : kCases) {
    CAPTURE(c.kernel);
    CAPTURE(c.in);
    Network network = network_of(c);
    Results one(network);
    {
      const Threads threads(1);
      run_part(c, network, Box::whole(network.dst), 0, kBatch, nullptr, one);
    }
    for (const int count : {2, 3, 7}) {
      const Threads threads(count);
      Results many(network);
      run_part(c, network, Box::whole(network.dst), 0, kBatch, nullptr, many);
      compared += expect_same(network, many, one);
    }
    Results single(network);
    for (std::int64_t n = kBatch; n-- > 0;)
      run_part(c, network, Box::whole(network.dst), n, n + 1, nullptr, single);
    compared += expect_same(network, single, one);
  }
  CHECK(compared > 1000000);
}

}  // namespace
}  // namespace halomesh
