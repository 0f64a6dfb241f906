// SPDX-License-Identifier: Apache-2.0
// Winograd's minimal filtering: see winograd_convolution.hpp.
#include "src/nn/kernels/winograd_convolution.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "error.hpp"
#include "src/nn/kernels/float_types.hpp"
#include "src/nn/kernels/winograd_transform.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

using namespace winograd;

namespace {

using pooled_weight::ceil_to;

constexpr std::int64_t kPair = WinogradConvolution::kPair, kRows = WinogradConvolution::kRows;
// The share of a second-level cache for the points and products of a block. Measured with conv2 and
// conv3 of CosmoFlow on a Zen 4 (1 MiB): 100 to 200 KiB take 0.85 to 1 of the time of 300 to 640.
constexpr std::int64_t kBlockBytes = 192 << 10;
// The floats of one point and one vector of input channels, for the windows of a run and for the
// weights of a pair. The floats of all input channels are contiguous, as products read them.
constexpr std::int64_t kPointsOfVector = kRows * kVector,
                       kWeightsOfVector = kVector * kPair * kVector;
// A free cache line after each point, since points would otherwise often fall into one set of a
// cache.
constexpr std::int64_t kGap = 16;
constexpr std::int64_t kProductStep = kRows * kPair * kVector + kGap;

// The input channels of a sum, in vectors; 0: all. The library's direct sums lose less for SVE than
// for AVX-512: compared with them, one sum of 256 channels (kernel 2) would have 3.2 times the
// error.
#ifdef __aarch64__
constexpr std::int64_t kLongestSum = 2;
#else
constexpr std::int64_t kLongestSum = 0;
#endif

// The matrices of one point: windows x input channels, and input channels x output channels.
struct Factors {
  const float *points, *weights;
  std::int64_t in_vectors;
};

// Writes the products of kTiles windows for kVectors vectors of output channels, added to `first`
// unless it is null.
template <std::int64_t kVectors, std::int64_t kTiles>
void multiply(const Factors& factors, const float* first, float* products) {
  std::array<std::array<Vector, kVectors>, kTiles> sums;
  unroll<kVectors>([&](auto v) {
    const Vector start = first == nullptr ? Vector{} : load(first + v * kVector);
    unroll<kTiles>([&](auto t) { sums[t][v] = start; });
  });
  for (std::int64_t i = 0; i < factors.in_vectors; ++i) {
    const float* const points = factors.points + i * kPointsOfVector;
    const float* const weights = factors.weights + i * kWeightsOfVector;
    for (std::int64_t c = 0; c < kVector; ++c) {
      std::array<Vector, kVectors> weight;
      unroll<kVectors>([&](auto v) { weight[v] = load(weights + (c * kPair + v) * kVector); });
      unroll<kTiles>([&](auto t) {
        const float point = points[t * kVector + c];
        unroll<kVectors>([&](auto v) { sums[t][v] += weight[v] * point; });
      });
    }
  }
  unroll<kTiles>([&](auto t) {
    unroll<kVectors>([&](auto v) { store(sums[t][v], products + (t * kVectors + v) * kVector); });
  });
}

// As multiply(), but in sums of at most kLongestSum vectors of input channels, which are then added
// up, so that each is rounded less often.
template <std::int64_t kVectors, std::int64_t kTiles>
void multiply_in_parts(const Factors& factors, const float* first, float* products) {
  Factors part = factors;
  part.in_vectors = std::min(factors.in_vectors, kLongestSum);
  multiply<kVectors, kTiles>(part, first, products);
  std::array<float, static_cast<std::size_t>(kVectors * kTiles * kVector)> sums;
  for (std::int64_t i = part.in_vectors; i < factors.in_vectors; i += part.in_vectors) {
    part.points = factors.points + i * kPointsOfVector;
    part.weights = factors.weights + i * kWeightsOfVector;
    part.in_vectors = std::min(factors.in_vectors - i, kLongestSum);
    multiply<kVectors, kTiles>(part, nullptr, sums.data());
    unroll<kVectors * kTiles>([&](auto v) {
      float* const product = products + v * kVector;
      store(load(product) + load(sums.data() + v * kVector), product);
    });
  }
}

using Multiply = void (*)(const Factors&, const float*, float*);
template <std::int64_t kVectors, std::int64_t... kBefore>
constexpr std::array<Multiply, kRows> multiplies(std::integer_sequence<std::int64_t, kBefore...>) {
  if constexpr (kLongestSum > 0)
    return {multiply_in_parts<kVectors, kBefore + 1>...};
  else
    return {multiply<kVectors, kBefore + 1>...};
}
// The functions for 1, 2, ..., kRows windows.
template <std::int64_t kVectors>
constexpr std::array<Multiply, kRows> kMultiply =
    multiplies<kVectors>(std::make_integer_sequence<std::int64_t, kRows>());

// Stores the largest of the window's elements, activated, and its place: the first NaN, or the
// first of equal elements.
template <class T, std::size_t kOutputs>
[[gnu::always_inline]] inline void store_pooled(const std::array<Vector, kOutputs>& values,
                                                std::int64_t count, float slope, T* dst,
                                                std::uint8_t* argmax) {
  Vector best = values[0];
  IntLanes place{};
  unroll<kOutputs - 1>([&](auto before) {
    constexpr std::int64_t kTap = before + 1;
    const Vector& value = values[kTap];
    const IntLanes take = (value > best) | ((value != value) & (best == best));
    best = take ? value : best;
    place = take ? IntLanes{} + static_cast<std::int32_t>(kTap) : place;
  });
  const IntLanes rises = best > 0.0F;
  store_values(rises ? best : best * slope, count, dst);
  if (argmax == nullptr) return;
  place = rises ? place : place | std::int32_t{kSlopeBit};
  halomesh::store(bytes_of(place), count, argmax);
}

}  // namespace

bool WinogradConvolution::is_large(const Geometry& g) { return g.pool != window_of(g.kernel); }

bool WinogradConvolution::supports(const Geometry& g) {
  return g.src_channels > 0 && g.dst_channels > 0 && g.src_channels % kVector == 0 &&
         has_filtering(g.kernel) &&
         (g.pool == window_of(g.kernel) || g.pool == large_window_of(g.kernel));
}

// The costs in multiply-adds of vectors, measured on a Zen 4 and, of large windows, on a Xeon
// (Sapphire Rapids): one point takes as long as 14 (24) for a vector of input channels, 4 (10) for
// one of output channels and 27 for one of weights. Weights of large windows leave the caches.
double WinogradConvolution::cost(const Geometry& g, std::int64_t windows) {
  const bool large = is_large(g);
  const double input = large ? 24 : 14, output = large ? 10 : 4, product = large ? 1.15 : 1;
  constexpr double kWeights = 27;
  const auto in = static_cast<double>(g.src_channels), count = static_cast<double>(windows);
  const std::int64_t vectors = ceil_to(g.dst_channels, kVector) / kVector;
  const auto out_vectors = static_cast<double>(vectors);
  const double in_vectors = in / static_cast<double>(kVector), products = in * out_vectors;
  return static_cast<double>(points_of(g.kernel, g.pool)) *
         (count * (product * products + input * in_vectors + output * out_vectors) +
          kWeights * products);
}

// The library's direct sums reach 0.9 of the peak on a Zen 4, and packing a vector of weights takes
// as long as 12 multiply-adds of vectors for each tap.
bool WinogradConvolution::pays(const Geometry& g, std::int64_t windows, std::int64_t voxels,
                               double at_once) {
  constexpr double kDirect = 1 / 0.9, kDirectWeights = 12;
  const std::int64_t out_vectors = ceil_to(g.dst_channels, kVector) / kVector;
  const std::int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  return cost(g, windows) < (static_cast<double>(voxels) * kDirect / at_once + kDirectWeights) *
                                static_cast<double>(taps * g.src_channels * out_vectors);
}

WinogradConvolution::WinogradConvolution(const Geometry& geometry, std::int64_t windows,
                                         int threads, Scratch scratch, Weights weights)
    : geometry_(geometry) {
  require(supports(geometry) && threads > 0,
          text("Winograd convolution of {} to {} channels, kernel {}x{}x{}, on {} threads",
               geometry.src_channels, geometry.dst_channels, geometry.kernel[0], geometry.kernel[1],
               geometry.kernel[2], threads),
          text("use kernels of 2x2x2, 3x3x3 or 3x1x3, windows of two (or four) voxels along axes "
               "with more than one tap and a multiple of {} input channels",
               kVector));
  points_ = points_of(geometry.kernel, geometry.pool);
  in_vectors_ = geometry.src_channels / kVector;
  out_vectors_ = ceil_to(geometry.dst_channels, kVector) / kVector;
  bias_ = AlignedBuffer<float>(ceil_to(out_vectors_, kPair) * kVector);
  zeros_ = AlignedBuffer<float>(geometry.src_channels);
  const std::int64_t most = Block{0, windows}.runs();
  block_runs_ = std::clamp(best_block_runs(), std::int64_t{1}, std::max<std::int64_t>(1, most));
  by_channels_ = windows <= geometry.dst_channels;
  if (by_channels_)
    points_of_box_ = scratch.take<float>(most * points_of_run());
  else if (weights == Weights::kKept)
    kept_weights_ = AlignedBuffer<float>(pairs() * weights_of_pair());
  else
    scratch_weights_ = scratch.take<float>(pairs() * weights_of_pair());
  for (int t = 0; t < threads; ++t) {
    ThreadScratch& thread = scratch_.emplace_back();
    thread.products = scratch.take<float>(block_runs_ * products_of_run());
    if (by_channels_)
      thread.weights = scratch.take<float>(weights_of_pair());
    else
      thread.points = scratch.take<float>(block_runs_ * points_of_run());
  }
}

// Small blocks are best while points and weights of a pair stay in a second-level cache (for large
// windows, weights alone: with 64 channels, blocks of 1 run take 0.8 of the time of 2); beyond
// that, weights are read anew for each block.
std::int64_t WinogradConvolution::best_block_runs() const {
  constexpr std::int64_t kStreamedRuns = 6;
  const bool streams = is_large(geometry_) ? weights_of_pair() > kCacheFloats * 5 / 4
                                           : points_of_run() + weights_of_pair() > kCacheFloats;
  if (streams) return kStreamedRuns;
  const std::int64_t bytes = points_ * (in_vectors_ + kPair) * kVector * 4;
  return kBlockBytes / bytes / kRows;
}

std::int64_t WinogradConvolution::pairs() const { return (out_vectors_ + kPair - 1) / kPair; }
std::int64_t WinogradConvolution::point_step() const {
  return in_vectors_ * kPointsOfVector + kGap;
}
std::int64_t WinogradConvolution::weight_step() const {
  return in_vectors_ * kWeightsOfVector + kGap;
}
std::int64_t WinogradConvolution::points_of_run() const { return points_ * point_step(); }
std::int64_t WinogradConvolution::products_of_run() const { return points_ * kProductStep; }
std::int64_t WinogradConvolution::weights_of_pair() const { return points_ * weight_step(); }

// Transforms the weights of one vector of input channels and one pair of vectors of output
// channels.
template <class F>
void WinogradConvolution::transform_pair(std::int64_t pair, std::int64_t in_vector,
                                         float* to) const {
  const std::int64_t co = geometry_.dst_channels;
  for (std::int64_t o = pair * kPair * kVector; o < co && o < (pair + 1) * kPair * kVector;
       o += kVector)
    for (std::int64_t i = 0; i < kVector; ++i) {
      std::array<std::array<float, kVector>, F::kTaps> taps{};
      const float* const from =
          given_.data + o * given_.out_step + (in_vector * kVector + i) * given_.in_step;
      for (std::int64_t lane = 0; lane < std::min(kVector, co - o); ++lane)
        for (std::int64_t tap = 0; tap < F::kTaps; ++tap)
          taps[static_cast<std::size_t>(tap)][static_cast<std::size_t>(lane)] =
              from[lane * given_.out_step + tap * given_.tap_step];
      std::array<Vector, F::kTaps> kernels;
      unroll<F::kTaps>([&](auto tap) { kernels[tap] = load(taps[tap].data()); });
      const std::int64_t lanes = i * kPair * kVector + o % (kPair * kVector);
      transform_weights<F>(kernels, to + in_vector * kWeightsOfVector + lanes, weight_step());
    }
}

void WinogradConvolution::load_weights(const float* weight, const float* bias) {
  const Spatial& k = geometry_.kernel;
  const std::int64_t taps = k[0] * k[1] * k[2];
  take_weights({weight, geometry_.src_channels * taps, taps, 1}, bias);
}

void WinogradConvolution::load_adjoint_weights(const float* weight) {
  const Spatial& k = geometry_.kernel;
  const std::int64_t taps = k[0] * k[1] * k[2];
  take_weights({weight + taps - 1, taps, geometry_.dst_channels * taps, -1}, nullptr);
}

void WinogradConvolution::take_weights(const GivenWeights& weights, const float* bias) {
  given_ = weights;
  if (bias != nullptr) std::copy_n(bias, geometry_.dst_channels, bias_.data());
  if (kept_weights_.size() > 0) transform_given();
}

void WinogradConvolution::transform_given() {
  if (by_channels_) return;  // each pair is transformed when it is used
#pragma omp parallel for schedule(static)
  for (std::int64_t task = 0; task < pairs() * in_vectors_; ++task) {
    const std::int64_t pair = task / in_vectors_;
    float* const to = all_weights() + pair * weights_of_pair();
    with_filtering(geometry_.kernel, geometry_.pool, [&](auto filtering) {
      transform_pair<decltype(filtering)>(pair, task % in_vectors_, to);
    });
  }
}

// Writes the points of the block's runs, one after the other from `points` on.
template <class F>
void WinogradConvolution::transform_block(const Source& src, const Spatial& extents,
                                          const Block& block, float* points) const {
  with_float_type(src.type, [&](auto zero) {
    using T = decltype(zero);
    const T* const zeros = reinterpret_cast<const T*>(zeros_.data());
    std::array<const T*, F::kPoints> voxels;
    float* to_run = points;
    for (std::int64_t run = block.lo; run < block.hi; ++run, to_run += points_of_run())
      for (std::int64_t window = block.at(run); window < block.at(run + 1); ++window) {
        const Spatial place = place_of(window, extents);
        find_voxels<F::kSides, F::kWindow>(src, place, zeros, voxels.data());
        float* to = to_run + (window - block.at(run)) * kVector;
        for (std::int64_t v = 0; v < in_vectors_; ++v, to += kPointsOfVector)
          transform_input<F>(voxels.data(), v * kVector, to, point_step());
      }
  });
}

// Multiplies the `points` of the block's runs by the `weights` of the pair.
template <class F>
void WinogradConvolution::multiply_block(const Block& block, std::int64_t pair, const float* points,
                                         const float* weights, float* products) const {
  const bool whole = (pair + 1) * kPair <= out_vectors_;
  const auto& multiply_runs = whole ? kMultiply<kPair> : kMultiply<1>;
  for (std::int64_t point = 0; point < F::kPoints; ++point) {
    const float* const first =
        !F::kIsLarge && point == F::kPointOfBias ? bias_.data() + pair * kPair * kVector : nullptr;
    for (std::int64_t run = block.lo; run < block.hi; ++run)
      multiply_runs[static_cast<std::size_t>(block.at(run + 1) - block.at(run) - 1)](
          {points + (run - block.lo) * points_of_run() + point * point_step(),
           weights + point * weight_step(), in_vectors_},
          first, products + (run - block.lo) * products_of_run() + point * kProductStep);
  }
}

template <class T>
struct WinogradConvolution::PooledTarget {
  static constexpr bool kPools = true;
  TensorView<T> dst;
  Argmax argmax;
  Box windows;
  std::int64_t sample;
  float slope;
  bool rounds;  // elements to bf16, before the largest is found

  // Stores channels c to c + count of a window at `place`; count is less than kVector only at the
  // end.
  template <class F>
  [[gnu::always_inline]] void put(const typename F::Outputs& values, const Spatial& place,
                                  std::int64_t c, std::int64_t count) const {
    const std::int64_t d = windows.lo[kD] + place[0], h = windows.lo[kH] + place[1];
    const std::int64_t w = windows.lo[kW] + place[2];
    T* const to = &dst.at(sample, windows.lo[kC] + c, d, h, w);
    std::uint8_t* const largest =
        argmax.data == nullptr ? nullptr : &argmax.at(sample, windows.lo[kC] + c, d, h, w);
    typename F::Outputs elements = values;
    if (rounds)
      unroll<F::kOutputs>([&](auto e) { elements[e] = rounded_to<Bfloat16>(elements[e]); });
    if (count == kVector)
      store_pooled(elements, kVector, slope, to, largest);
    else
      store_pooled(elements, count, slope, to, largest);
  }
};

template <class T>
struct WinogradConvolution::PlainTarget {
  static constexpr bool kPools = false;
  TensorView<T> dst;
  Box box;      // voxels to write
  Box windows;  // windows that contain them; voxels outside the box are not written
  std::int64_t sample;

  template <class F>
  [[gnu::always_inline]] void put(const typename F::Outputs& values, const Spatial& place,
                                  std::int64_t c, std::int64_t count) const {
    constexpr Spatial kWindow = F::kWindow;
    Spatial first{};
    bool inside = count == kVector;
    for (std::size_t a = 0; a < 3; ++a) {
      first[a] = kWindow[a] * (windows.lo[a + 1] + place[a]);
      inside = inside && first[a] >= box.lo[a + 1] && first[a] + kWindow[a] <= box.hi[a + 1];
    }
    const std::int64_t pixel = dst.span.extent(kC), row = pixel * dst.span.extent(kW);
    const std::int64_t plane = row * dst.span.extent(kH);
    T* const to = dst.data + dst.offset(sample, box.lo[kC] + c, first[0], first[1], first[2]);
    const auto voxel = [&](std::int64_t e) {
      const Spatial at = F::place_of_output(e);
      return to + at[0] * plane + at[1] * row + at[2] * pixel;
    };
    if (inside) {
      unroll<F::kOutputs>([&](auto e) { store_values(values[e], kVector, voxel(e)); });
      return;
    }
    for (std::int64_t e = 0; e < F::kOutputs; ++e) {
      bool in_box = true;
      for (std::size_t a = 0; a < 3; ++a) {
        const std::int64_t at = first[a] + F::place_of_output(e)[a];
        in_box = in_box && at >= box.lo[a + 1] && at < box.hi[a + 1];
      }
      if (in_box) store_values(values[static_cast<std::size_t>(e)], count, voxel(e));
    }
  }
};

template <class F, class Target>
void WinogradConvolution::finish_block(const Block& block, std::int64_t pair, const float* products,
                                       const Target& to) const {
  const std::int64_t lo = pair * kPair * kVector;
  const std::int64_t hi = std::min(lo + kPair * kVector, geometry_.dst_channels);
  const std::int64_t vectors = (hi - lo + kVector - 1) / kVector;
  const Spatial extents = to.windows.shape().spatial();
  for (std::int64_t run = block.lo; run < block.hi; ++run, products += products_of_run())
    for (std::int64_t window = block.at(run); window < block.at(run + 1); ++window) {
      const Spatial place = place_of(window, extents);
      const float* from = products + (window - block.at(run)) * vectors * kVector;
      for (std::int64_t c = lo; c < hi; c += kVector, from += kVector) {
        auto outputs = transform_products<F>(from, kProductStep);
        if constexpr (F::kIsLarge)
          for (Vector& output : outputs) output += load(bias_.data() + c);
        to.template put<F>(outputs, place, c, std::min(kVector, hi - c));
      }
    }
}

// Threads take blocks of windows dynamically, because a core may be slower for a while.
template <class F, class Target>
void WinogradConvolution::forward_windows(const Source& src, const Target& to, Poll& poll) {
  const Spatial extents = to.windows.shape().spatial();
  const std::int64_t windows = extents[0] * extents[1] * extents[2];
  const auto threads = static_cast<std::int64_t>(scratch_.size());
  const std::int64_t most = block_runs_ * kRows;
  const std::int64_t blocks = ceil_to((windows + most - 1) / most, threads);
#pragma omp parallel for schedule(dynamic) num_threads(static_cast <int>(threads))
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * windows / blocks;
    const Block block(first, (b + 1) * windows / blocks - first);
    ThreadScratch& scratch = scratch_[static_cast<std::size_t>(omp_get_thread_num())];
    float *const points = scratch.points.data(), *const products = scratch.products.data();
    transform_block<F>(src, extents, block, points);
    for (std::int64_t pair = 0; block.count > 0 && pair < pairs(); ++pair) {
      multiply_block<F>(block, pair, points, all_weights() + pair * weights_of_pair(), products);
      finish_block<F>(block, pair, products, to);
      poll();
    }
  }
}

// Each thread has pairs of vectors of output channels (or a share of the windows of a pair), whose
// weights it transforms.
template <class F, class Target>
void WinogradConvolution::forward_channels(const Source& src, const Target& to, Poll& poll) {
  const Spatial extents = to.windows.shape().spatial();
  const Block all(0, extents[0] * extents[1] * extents[2]);
  const auto threads = static_cast<std::int64_t>(scratch_.size());
  const std::int64_t shares = std::min((threads + pairs() - 1) / pairs(), all.runs());
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
#pragma omp for schedule(static)
    for (std::int64_t run = 0; run < all.runs(); ++run)
      transform_block<F>(src, extents, all.part(run, run + 1),
                         points_of_box_.data() + run * points_of_run());
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < pairs() * shares; ++task) {
      const std::int64_t pair = task / shares, share = task % shares;
      ThreadScratch& scratch = scratch_[static_cast<std::size_t>(omp_get_thread_num())];
      for (std::int64_t v = 0; v < in_vectors_; ++v)
        transform_pair<F>(pair, v, scratch.weights.data());
      const std::int64_t end = (share + 1) * all.runs() / shares;
      for (std::int64_t run = share * all.runs() / shares; run < end; run += block_runs_) {
        const Block block = all.part(run, std::min(end, run + block_runs_));
        multiply_block<F>(block, pair, points_of_box_.data() + run * points_of_run(),
                          scratch.weights.data(), scratch.products.data());
        finish_block<F>(block, pair, scratch.products.data(), to);
        poll();
      }
    }
  }
}

template <class Target>
void WinogradConvolution::run(const Source& src, const Target& to, Poll& poll) {
  with_filtering(geometry_.kernel, geometry_.pool, [&](auto filtering) {
    using F = decltype(filtering);
    if constexpr (!F::kIsLarge || !Target::kPools)
      by_channels_ ? forward_channels<F>(src, to, poll) : forward_windows<F>(src, to, poll);
  });
}

void WinogradConvolution::forward(const Source& src, const Box& dst_box, std::int64_t n,
                                  float slope, AnyView dst, Argmax argmax, Poll poll) {
  with_float_type(dst.type, [&](auto zero) {
    using T = decltype(zero);
    run(src,
        PooledTarget<T>{dst.as<T>(), argmax, dst_box, n, slope, src.type == DataType::kBfloat16},
        poll);
  });
}

void WinogradConvolution::convolve(Source src, const Box& dst_box, std::int64_t n, AnyView dst,
                                   Poll poll) {
  const Spatial& window = geometry_.pool;
  const Box windows = windows_of(dst_box, window);
  for (std::size_t a = 0; a < 3; ++a)
    src.corner[a] -= dst_box.lo[a + 1] - window[a] * windows.lo[a + 1];
  with_float_type(dst.type, [&](auto zero) {
    using T = decltype(zero);
    run(src, PlainTarget<T>{dst.as<T>(), dst_box, windows, n}, poll);
  });
}

Box WinogradConvolution::windows_of(const Box& voxels, const Spatial& window) {
  Box windows = voxels;
  for (std::size_t a = 0; a < 3; ++a) {
    windows.lo[a + 1] = voxels.lo[a + 1] / window[a];
    windows.hi[a + 1] = (voxels.hi[a + 1] + window[a] - 1) / window[a];
  }
  return windows;
}

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
