// SPDX-License-Identifier: Apache-2.0
// The kernels of our own, timed with Google Benchmark on the blocks of CosmoFlow's conv1, and those
// of conv2 to conv5 beside the library's, which form all products and process the zeros, too.
// Measures only: nothing here can fail on a noisy machine.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rng.hpp"
#include "src/nn/kernels/dense_source.hpp"
#include "src/nn/kernels/pooled_activation.hpp"
#include "src/nn/kernels/pooled_convolution.hpp"
#include "src/nn/kernels/pooled_weight_gradient.hpp"
#include "src/nn/kernels/sparse_data_gradient.hpp"
#include "src/nn/kernels/sparse_weight_gradient.hpp"
#include "src/nn/kernels/winograd_convolution.hpp"
#include "src/nn/onednn/onednn.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kExtent = 128, kPlanes = 32, kChannels = 4, kFilters = 32;
constexpr float kSlope = 0.3F;

// A block of kPlanes convolution planes at full width, and its input.
struct Conv1 {
  explicit Conv1(std::int64_t kernel)
      : geometry{{kChannels, kPlanes + kernel - 1, kExtent, kExtent},
                 {kFilters, kPlanes, kExtent, kExtent},
                 {kernel, kernel, kernel},
                 {1, 1, 1},
                 {1, 1, 1},
                 {0, (kernel - 1) / 2, (kernel - 1) / 2},
                 {0, kernel / 2, kernel / 2}},
        src(Box::whole(geometry.src), 1),
        counts(Box::whole(geometry.src), 1, DataType::kInt16),
        dst(Box::whole({kFilters, kPlanes / 2, kExtent / 2, kExtent / 2}), 1),
        argmax(static_cast<std::size_t>(dst.view().sample_volume())) {
    const CounterRng rng(1, RandomUse::kSynth);
    for (std::int64_t i = 0; i < src.view().sample_volume(); ++i) {
      const std::uint32_t bits = rng.block(static_cast<std::uint64_t>(i))[0];
      src.view().data[i] = static_cast<float>(bits >> 28U);
      counts.any_view().as<std::int16_t>().data[i] = static_cast<std::int16_t>(bits >> 29U);
    }
    for (std::size_t i = 0; i < argmax.size(); ++i)
      argmax[i] = static_cast<std::uint8_t>(rng.block(i)[1] & 0x87U);
  }
  double forward_flops() const {
    const auto [kd, kh, kw] = geometry.kernel;
    return 2.0 * static_cast<double>(geometry.dst.volume() * kChannels * kd * kh * kw);
  }

  ConvolutionGeometry geometry;
  Tensor src, counts, dst;
  std::vector<std::uint8_t> argmax;
};

void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

// Of training, which remembers argmax, or of evaluation.
void pooled_forward(benchmark::State& state, DataType compute, bool training) {
  const std::int64_t k = state.range(0);
  Conv1 block(k);
  const ConvolutionGeometry& g = block.geometry;
  PooledConvolution kernel(compute, kChannels, kFilters, {k, k, k});
  DenseSource source(DataType::kFloat32, kernel.src_type(), compute);
  const Box& read = block.src.view().span;
  source.reserve(read, read, {g.pad_before, g.pad_after});
  Scratch scratch;
  source.take(scratch);
  const void* const src = source.read(block.src.any_view(), 0, read, {g.pad_before, g.pad_after});
  const std::vector<float> weight(static_cast<std::size_t>(kFilters * kChannels * k * k * k), 0.1F);
  const std::vector<float> bias(kFilters, 0.0F);
  kernel.load_weights(weight.data(), bias.data());
  const Box& box = block.dst.view().span;
  Tensor dst(box, 1, compute);
  const Argmax argmax{training ? block.argmax.data() : nullptr, box, 1};
  for ([[maybe_unused]] auto iteration : state)
    kernel.forward(src, box, 0, kSlope, dst.any_view(), argmax);
  count_flops(state, block.forward_flops());
}

// Two planes of conv2's convolution, which fit a cache.
void pooled_activation(benchmark::State& state, DataType type, bool training) {
  constexpr std::int64_t kHalf = kExtent / 2;
  const Shape shape{2 * kFilters, 2, kHalf, kHalf};
  Tensor planes(Box::whole(shape), 1, type);
  const Box box = Box::whole({shape.c, 1, kHalf / 2, kHalf / 2});
  Tensor dst(box, 1, type);
  std::vector<std::uint8_t> won(static_cast<std::size_t>(box.volume()));
  const Argmax argmax{training ? won.data() : nullptr, box, 1};
  const PooledActivation activation{{2, 2, 2}, kSlope};
  for ([[maybe_unused]] auto iteration : state)
    activation.forward({planes.any_view().data, type, {0, 2}}, box, 0, dst.any_view(), argmax);
  state.SetBytesProcessed(state.iterations() * planes.any_view().sample_bytes());
}

// An eighth of the convolution's elements have a gradient that is not zero.
void pooled_weight_gradient(benchmark::State& state) {
  const std::int64_t k = state.range(0);
  Conv1 block(k);
  PooledWeightGradient kernel({kChannels, kFilters, {k, k, k}, {2, 2, 2}}, omp_get_max_threads());
  const Spatial extents{kPlanes / 2, kExtent / 2, kExtent / 2};
  const Spatial step{extents[1] * extents[2] * kFilters, extents[2] * kFilters, kFilters};
  const std::int64_t before = (k - 1) / 2;
  for ([[maybe_unused]] auto iteration : state)
    kernel.add(
        PooledWeightGradient::Source<float>{
            block.src.view().data, block.geometry.src.spatial(), {0, -before, -before}},
        extents, PooledWeightGradient::Pooled<float>{block.dst.view().data, step},
        PooledWeightGradient::Argmax{block.argmax.data(), step}, kSlope, true);
  count_flops(state, block.forward_flops() / 8);
}

// Convolution `number` of CosmoFlow at 128^3 with SAME padding, behind it max pooling of 2x2x2.
struct LaterConvolution {
  LaterConvolution(std::int64_t number, std::int64_t kernel, DataType compute)
      : extent(kExtent >> (number - 1)),
        ci(kFilters << (number - 2)),
        co(2 * ci),
        geometry{{ci, extent, extent, extent},
                 {co, extent, extent, extent},
                 {kernel, kernel, kernel},
                 {1, 1, 1},
                 {1, 1, 1},
                 {(kernel - 1) / 2, (kernel - 1) / 2, (kernel - 1) / 2},
                 {kernel / 2, kernel / 2, kernel / 2}},
        src(Box::whole(geometry.src), 1, compute),
        conv_diff(Box::whole(geometry.dst), 1, compute),
        diff(Box::whole({co, extent / 2, extent / 2, extent / 2}), 1),
        argmax(static_cast<std::size_t>(diff.view().sample_volume())),
        weight(static_cast<std::size_t>(co * ci * kernel * kernel * kernel), 0.01F),
        bias(static_cast<std::size_t>(co)) {
    const CounterRng rng(1, RandomUse::kSynth);
    for (std::size_t i = 0; i < argmax.size(); ++i) {
      argmax[i] = static_cast<std::uint8_t>(rng.block(i)[1] & 0x87U);
      diff.view().data[i] = static_cast<float>(rng.block(i)[2] >> 28U);
    }
  }
  Spatial pooled() const { return diff.view().span.shape().spatial(); }
  Spatial pooled_step() const { return {pooled()[1] * pooled()[2] * co, pooled()[2] * co, co}; }
  Spatial corner() const {
    return {-geometry.pad_before[0], -geometry.pad_before[1], -geometry.pad_before[2]};
  }
  double flops() const {
    const auto [kd, kh, kw] = geometry.kernel;
    return 2.0 * static_cast<double>(geometry.dst.volume() * ci * kd * kh * kw);
  }
  std::int64_t extent, ci, co;
  ConvolutionGeometry geometry;
  Tensor src, conv_diff, diff;
  std::vector<std::uint8_t> argmax;
  std::vector<float> weight, bias;
};

// FLOP/s are those of the dense gradient for both, so that they can be compared.
void dense_gradient(benchmark::State& state, DataType compute, bool of_weights) {
  LaterConvolution c(state.range(1), state.range(0), compute);
  ConvolutionKernels kernels({compute, compute, false});
  const std::size_t kernel =
      of_weights ? kernels.add_backward_weights(c.geometry) : kernels.add_backward_data(c.geometry);
  kernels.allocate({}, false);
  kernels.load_weights(c.weight.data(), c.bias.data());
  kernels.load_backward_weights();
  std::byte *const src = c.src.any_view().data, *const diff = c.conv_diff.any_view().data;
  for ([[maybe_unused]] auto iteration : state) {
    if (of_weights) {
      kernels.backward_weights(kernel, src, diff);
      kernels.store_diff_weights(c.weight.data(), nullptr);
    } else {
      kernels.backward_data(kernel, diff, src);
    }
  }
  count_flops(state, c.flops());
}

template <class T>
void sparse_weight_gradient(benchmark::State& state) {
  LaterConvolution c(state.range(1), state.range(0), DataTypeOf<T>::kType);
  SparseWeightGradient kernel({c.ci, c.co, c.geometry.kernel, {2, 2, 2}}, c.pooled(),
                              omp_get_max_threads());
  const T* const src = c.src.any_view().template as<T>().data;
  for ([[maybe_unused]] auto iteration : state) {
    kernel.add(PooledWeightGradient::Source<T>{src, c.geometry.src.spatial(), c.corner()},
               c.pooled(), PooledWeightGradient::Pooled<float>{c.diff.view().data, c.pooled_step()},
               PooledWeightGradient::Argmax{c.argmax.data(), c.pooled_step()}, kSlope, true);
    kernel.store(c.weight.data(), c.bias.data());
  }
  count_flops(state, c.flops());
}

template <class T>
void sparse_data_gradient(benchmark::State& state) {
  LaterConvolution c(state.range(1), state.range(0), DataTypeOf<T>::kType);
  SparseDataGradient kernel({c.ci, c.co, c.geometry.kernel, {2, 2, 2}}, c.pooled(),
                            omp_get_max_threads(), DataTypeOf<T>::kType, c.extent, c.extent);
  kernel.load_weights(c.weight.data());
  const std::int64_t row = c.extent * c.ci;
  const SparseDataGradient::Target<T> target{c.src.any_view().template as<T>().data,
                                             {c.extent * row, row, c.ci},
                                             c.geometry.src.spatial(),
                                             c.corner()};
  for ([[maybe_unused]] auto iteration : state)
    kernel.run(target, c.pooled(), {0, c.pooled()[0]},
               PooledWeightGradient::Pooled<float>{c.diff.view().data, c.pooled_step()},
               PooledWeightGradient::Argmax{c.argmax.data(), c.pooled_step()}, kSlope);
  count_flops(state, c.flops());
}

// As many planes as fit two caches are convolved, then pooled.
void dense_forward(benchmark::State& state) {
  LaterConvolution c(state.range(1), state.range(0), DataType::kFloat32);
  const std::int64_t k = state.range(0), n = c.extent;
  const std::int64_t plane = n * n * c.co;
  const std::int64_t planes = std::clamp<std::int64_t>((1 << 19) / plane / 2 * 2, 2, n);
  ConvolutionGeometry g = c.geometry;  // of all pieces alike: the first would have more padding
  g.src.d = planes + k - 1;
  g.dst.d = planes;
  g.pad_before[0] = g.pad_after[0] = 0;
  Tensor src(Box::whole(g.src), 1), conv(Box::whole(g.dst), 1);
  Tensor dst(Box::whole({c.co, planes / 2, n / 2, n / 2}), 1);
  ConvolutionKernels kernels;
  const std::size_t kernel = kernels.add_forward(g);
  kernels.allocate({}, false);
  const PooledActivation activation{{2, 2, 2}, kSlope};
  for ([[maybe_unused]] auto iteration : state) {
    kernels.load_weights(c.weight.data(), c.bias.data());
    for (std::int64_t d = 0; d < n; d += planes) {
      kernels.forward(kernel, src.view().data, conv.view().data);
      activation.forward({conv.any_view().data, DataType::kFloat32, {0, planes}}, dst.view().span,
                         0, dst.any_view(), {c.argmax.data(), dst.view().span, 1});
    }
  }
  count_flops(state, c.flops());
}

void winograd_forward(benchmark::State& state) {
  LaterConvolution c(state.range(1), state.range(0), DataType::kFloat32);
  const Box& box = c.diff.view().span;
  WinogradConvolution kernel({c.ci, c.co, c.geometry.kernel, {2, 2, 2}}, box.volume() / c.co,
                             omp_get_max_threads());
  const std::int64_t row = c.extent * c.ci;
  const WinogradConvolution::Source src{
      c.src.view().data, {c.extent * row, row, c.ci}, c.geometry.src.spatial(), c.corner()};
  for ([[maybe_unused]] auto iteration : state) {
    kernel.load_weights(c.weight.data(), c.bias.data());
    kernel.forward(src, box, 0, kSlope, c.diff.any_view(), {c.argmax.data(), box, 1});
  }
  count_flops(state, c.flops());
}

void count_bytes(benchmark::State& state, const Tensor& tensor) {
  state.SetBytesProcessed(state.iterations() * tensor.any_view().sample_bytes());
}

void counts_to_logarithms(benchmark::State& state) {
  Conv1 block(2);
  DenseSource source(DataType::kInt16, DataType::kFloat32, DataType::kFloat32);
  const Box& box = block.counts.any_view().span;
  source.reserve(box, box);
  Scratch scratch;
  source.take(scratch);
  for ([[maybe_unused]] auto iteration : state)
    benchmark::DoNotOptimize(source.read(block.counts.any_view(), 0, box));
  count_bytes(state, block.counts);
}

// NOLINTBEGIN: what the library's macros make
#define POOLED_FORWARD(name, compute, training)                        \
  BENCHMARK_CAPTURE(pooled_forward, name, DataType::compute, training) \
      ->Arg(2)                                                         \
      ->Arg(3)                                                         \
      ->Unit(benchmark::kMillisecond)                                  \
      ->UseRealTime()
POOLED_FORWARD(fp32, kFloat32, true);
POOLED_FORWARD(fp32_evaluation, kFloat32, false);
POOLED_FORWARD(bf16, kBfloat16, true);
POOLED_FORWARD(bf16_evaluation, kBfloat16, false);
BENCHMARK_CAPTURE(pooled_activation, fp32, DataType::kFloat32, true)->UseRealTime();
BENCHMARK_CAPTURE(pooled_activation, fp32_evaluation, DataType::kFloat32, false)->UseRealTime();
BENCHMARK_CAPTURE(pooled_activation, bf16, DataType::kBfloat16, true)->UseRealTime();
BENCHMARK_CAPTURE(pooled_activation, bf16_evaluation, DataType::kBfloat16, false)->UseRealTime();
// Kernel size, number of the convolution: dense and sparse in turn.
#define FOR_CONVOLUTIONS(registered) \
  registered->ArgsProduct({{2, 3}, {2, 3, 4, 5}})->Unit(::benchmark::kMillisecond)->UseRealTime()
FOR_CONVOLUTIONS(BENCHMARK(dense_forward));
FOR_CONVOLUTIONS(BENCHMARK(winograd_forward));
FOR_CONVOLUTIONS(BENCHMARK_CAPTURE(dense_gradient, weights_fp32, DataType::kFloat32, true));
FOR_CONVOLUTIONS(BENCHMARK_TEMPLATE(sparse_weight_gradient, float));
FOR_CONVOLUTIONS(BENCHMARK_CAPTURE(dense_gradient, weights_bf16, DataType::kBfloat16, true));
FOR_CONVOLUTIONS(BENCHMARK_TEMPLATE(sparse_weight_gradient, Bfloat16));
FOR_CONVOLUTIONS(BENCHMARK_CAPTURE(dense_gradient, data_fp32, DataType::kFloat32, false));
FOR_CONVOLUTIONS(BENCHMARK_TEMPLATE(sparse_data_gradient, float));
FOR_CONVOLUTIONS(BENCHMARK_CAPTURE(dense_gradient, data_bf16, DataType::kBfloat16, false));
FOR_CONVOLUTIONS(BENCHMARK_TEMPLATE(sparse_data_gradient, Bfloat16));
// NOLINTEND
BENCHMARK(pooled_weight_gradient)->Arg(2)->Arg(3)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(counts_to_logarithms)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace halomesh

BENCHMARK_MAIN();
