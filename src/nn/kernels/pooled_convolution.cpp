// SPDX-License-Identifier: Apache-2.0
// A convolution pooled in registers: see pooled_convolution.hpp.
#include "src/nn/kernels/pooled_convolution.hpp"

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "src/nn/kernels/lanes.hpp"

namespace halomesh {
inline namespace HALOMESH_ISA {
namespace {

constexpr std::size_t kTaps = 8;  // elements of a pooling window, in d,h,w order
// The blocks of filters that share each element read, and the elements of a window whose sums for
// these blocks fit into the registers together.
constexpr std::int64_t kBlocksAtOnce = 2;
constexpr std::size_t kTapsAtOnce = std::min<std::size_t>(kTaps, kRegisters / 4);

#if defined(__AVX512BF16__)
constexpr bool kHasDots = true;
#else
constexpr bool kHasDots = false;
#endif

std::int64_t blocks_of(std::int64_t filters) { return (filters + kLanes - 1) / kLanes; }

// Calls body(index) for each index, unrolled, so that arrays with this index can stay in registers.
template <std::size_t... kIndex, class Body>
[[gnu::always_inline]] inline void unroll(std::index_sequence<kIndex...>, const Body& body) {
  (body(std::integral_constant<std::size_t, kIndex>()), ...);
}
template <std::size_t kCount, class Body>
[[gnu::always_inline]] inline void unrolled(const Body& body) {
  unroll(std::make_index_sequence<kCount>(), body);
}

using TapValues = std::array<FloatLanes, kTaps>;

// A float of the precision `type`, or two bf16, as a word of memory.
std::uint32_t word_of(float value, DataType type) {
  return std::bit_cast<std::uint32_t>(
      type == DataType::kBfloat16 ? static_cast<float>(Bfloat16(value)) : value);
}
std::uint32_t word_of(Bfloat16 first, Bfloat16 second) {
  return first.bits | static_cast<std::uint32_t>(second.bits) << 16U;
}

// Adds the products of one word of source, a float or two bf16, with each lane of weights.
template <class S>
[[gnu::always_inline]] inline void add_products(const WordLanes& weights, std::uint32_t word,
                                                FloatLanes& sum) {
  if constexpr (std::is_same_v<S, float>) {
    sum += std::bit_cast<FloatLanes>(weights) * std::bit_cast<float>(word);
  } else {
#if defined(__AVX512BF16__)
    const WordLanes words = WordLanes{} + word;
    sum = std::bit_cast<FloatLanes>(_mm512_dpbf16_ps(std::bit_cast<__m512>(sum),
                                                     std::bit_cast<__m512bh>(words),
                                                     std::bit_cast<__m512bh>(weights)));
#else
    static_assert(std::is_same_v<S, float>, "compiled without dot products");
#endif
  }
}

[[gnu::always_inline]] inline FloatLanes largest_of(const TapValues& values) {
  Largest largest(values[0]);
  unrolled<kTaps - 1>([&](auto before) { largest.add(values[before + 1]); });
  return largest.value();
}

// The smallest value that rounds to `rounded` in memory of type C. Between a bf16 and the next are
// 2^16 fp32 numbers; halfway ones go to the even one.
template <class C>
[[gnu::always_inline]] inline FloatLanes smallest_like(const FloatLanes& rounded) {
  if constexpr (std::is_same_v<C, float>) return rounded;
  const auto word = std::bit_cast<WordLanes>(rounded);
  const WordLanes half = 0x8000U - ((word >> 16U) & 1U);
  // Below zero the smaller value has the larger magnitude, and some values below zero round to it.
  const WordLanes smallest = rounded > 0.0F ? word - half : (word | 0x80000000U) + half;
  return std::bit_cast<FloatLanes>(smallest);
}

// Stores the largest of the window's elements, rounded to C and activated, and its position, as
// PooledActivation does. Rounding preserves the order, so that only the largest must be rounded.
template <class C, class T>
[[gnu::always_inline]] inline void store_pooled(const TapValues& values, std::int64_t count,
                                                float slope, T* dst, std::uint8_t* argmax) {
  const FloatLanes best = rounded_to<C>(largest_of(values));
  const IntLanes rises = best > 0.0F;
  store_values(rises ? best : best * slope, count, dst);
  if (argmax == nullptr) return;
  const FloatLanes least = smallest_like<C>(best);  // NaN if any is
  IntLanes largest{};
  unrolled<kTaps>([&](auto after) {
    constexpr std::size_t kTap = kTaps - 1 - after;  // the first tap wins
    const FloatLanes& value = values[kTap];
    const IntLanes take = (value >= least) | (value != value);
    largest = take ? IntLanes{} + static_cast<std::int32_t>(kTap) : largest;
  });
  largest = rises ? largest : largest | std::int32_t{kSlopeBit};
  store(bytes_of(largest), count, argmax);
}

}  // namespace

bool PooledConvolution::is_fast() { return kLanes >= 8; }

PooledConvolution::PooledConvolution(DataType compute, std::int64_t channels, std::int64_t filters,
                                     const Spatial& kernel, bool dots)
    : compute_(compute),
      channels_(channels),
      filters_(filters),
      run_(kernel[2] * channels),
      pairs_(compute == DataType::kBfloat16 && channels % 2 == 0),
      dots_(kHasDots && pairs_ && dots),
      kernel_(kernel),
      weights_(blocks_of(filters) * kernel[0] * kernel[1] * steps_a_run() * kLanes),
      bias_(blocks_of(filters) * kLanes),
      offsets_(kernel[0] * kernel[1] * steps_a_run()) {}

// The place of an element in a run of weights: a dot product adds the second of a pair first.
std::int64_t PooledConvolution::place_in_run(std::int64_t element) const {
  return pairs_ ? element ^ 1 : element;
}

void PooledConvolution::load_weights(const float* weight, const float* bias) {
  const std::int64_t planes = kernel_[0] * kernel_[1], kw = kernel_[2];
  std::copy_n(bias, filters_, bias_.data());
  for (std::int64_t o = 0; o < filters_; ++o)
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t step = 0; step < steps_a_run(); ++step) {
        const auto factor = [&, o, plane](std::int64_t element) {
          const std::int64_t c = element % channels_, w = element / channels_;
          return weight[((o * channels_ + c) * planes + plane) * kw + w];
        };
        const std::int64_t run = (o / kLanes * planes + plane) * steps_a_run() + step;
        weights_.data()[run * kLanes + o % kLanes] =
            dots_ ? word_of(Bfloat16(factor(2 * step)), Bfloat16(factor(2 * step + 1)))
                  : word_of(factor(place_in_run(step)), compute_);
      }
}

void PooledConvolution::step_by(std::int64_t row, std::int64_t plane) {
  row_ = row;
  plane_ = plane;
  std::int64_t* offset = offsets_.data();
  for (std::int64_t i = 0; i < kernel_[0]; ++i)
    for (std::int64_t j = 0; j < kernel_[1]; ++j)
      for (std::int64_t step = 0; step < steps_a_run(); ++step)
        *offset++ = i * plane + j * row + (dots_ ? 2 * step : place_in_run(step));
}

template <std::int64_t kBlocks, class S, class C, class T>
void PooledConvolution::pool_row(const S* src, std::int64_t block, std::int64_t pixels, float slope,
                                 T* dst, std::int64_t dst_step, std::uint8_t* argmax) const {
  const std::int64_t steps = offsets_.size(), block_words = steps * kLanes;
  const std::int64_t row = row_, plane = plane_;
  const std::int64_t* const offsets = offsets_.data();
  const std::uint32_t* const weights = weights_.data() + block * block_words;
  std::array<FloatLanes, kBlocks> bias;
  for (std::int64_t b = 0; b < kBlocks; ++b)
    load(bias_.data() + (block + b) * kLanes, kLanes, bias[static_cast<std::size_t>(b)]);
  for (std::int64_t w = 0; w < pixels; ++w) {
    std::array<TapValues, kBlocks> sums;
    // A single loop covers all taps of the kernel: nested loops would spill sums from their
    // registers.
    const S* const x = src + 2 * w * channels_;
    unrolled<kTaps / kTapsAtOnce>([&](auto part) {
      std::array<std::array<FloatLanes, kTapsAtOnce>, kBlocks> sum;
      unrolled<kBlocks>(
          [&](auto b) { unrolled<kTapsAtOnce>([&](auto t) { sum[b][t] = bias[b]; }); });
      const std::uint32_t* weight = weights;
      for (std::int64_t step = 0; step < steps; ++step, weight += kLanes) {
        const S* const at = x + offsets[step];
        std::array<WordLanes, kBlocks> factor;
        unrolled<kBlocks>([&](auto b) {
          load(weight + static_cast<std::int64_t>(b) * block_words, kLanes, factor[b]);
          factor[b] = in_register(factor[b]);
        });
        // Elements 0..3 of the window are in one plane, 4..7 in the next, and rows alternate
        // likewise.
        unrolled<kTapsAtOnce>([&](auto t) {
          constexpr auto kTap = static_cast<std::int64_t>(part * kTapsAtOnce + t);
          std::uint32_t word = 0;
          std::memcpy(&word, at + kTap / 4 * plane + kTap / 2 % 2 * row + kTap % 2 * channels_,
                      sizeof(word));
          unrolled<kBlocks>([&](auto b) { add_products<S>(factor[b], word, sum[b][t]); });
        });
      }
      unrolled<kBlocks>([&](auto b) {
        unrolled<kTapsAtOnce>([&](auto t) { sums[b][part * kTapsAtOnce + t] = sum[b][t]; });
      });
    });
    unrolled<kBlocks>([&](auto b) {
      const std::int64_t c = (block + static_cast<std::int64_t>(b)) * kLanes;
      store_pooled<C>(sums[b], std::min(kLanes, filters_ - c), slope, dst + w * dst_step + c,
                      argmax == nullptr ? nullptr : argmax + w * filters_ + c);
    });
  }
}

template <class S, class C, class T>
void PooledConvolution::forward_rows(const S* src, const Box& dst_box, std::int64_t n, float slope,
                                     TensorView<T> dst, Argmax argmax) const {
  const std::int64_t heights = dst_box.extent(kH), rows = dst_box.extent(kD) * heights;
  const std::int64_t pixels = dst_box.extent(kW), blocks = blocks_of(filters_);
  const std::int64_t step = dst.span.extent(kC);  // from one pixel to the next
  // All rows cost the same, but cores may be disturbed: dynamic.
#pragma omp parallel for schedule(dynamic, 2)
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t d = row / heights, h = row % heights;
    const S* const from = src + 2 * d * plane_ + 2 * h * row_;
    const std::int64_t at_d = dst_box.lo[kD] + d, at_h = dst_box.lo[kH] + h;
    T* const to = &dst.at(n, dst_box.lo[kC], at_d, at_h, dst_box.lo[kW]);
    std::uint8_t* const largest = argmax.data == nullptr
                                      ? nullptr
                                      : &argmax.at(n, dst_box.lo[kC], at_d, at_h, dst_box.lo[kW]);
    std::int64_t block = 0;
    for (; block + kBlocksAtOnce <= blocks; block += kBlocksAtOnce)
      pool_row<kBlocksAtOnce, S, C>(from, block, pixels, slope, to, step, largest);
    for (; block < blocks; ++block)
      pool_row<1, S, C>(from, block, pixels, slope, to, step, largest);
  }
}

void PooledConvolution::forward(const void* src, const Box& dst_box, std::int64_t n, float slope,
                                AnyView dst, Argmax argmax) {
  const std::int64_t row = (2 * dst_box.extent(kW) + kernel_[2] - 1) * channels_;
  step_by(row, (2 * dst_box.extent(kH) + kernel_[1] - 1) * row);
  const auto write = [&](auto view) {
    const auto* const floats = static_cast<const float*>(src);
    if constexpr (kHasDots)
      if (dots_)
        return forward_rows<Bfloat16, Bfloat16>(static_cast<const Bfloat16*>(src), dst_box, n,
                                                slope, view, argmax);
    if (compute_ == DataType::kBfloat16)
      forward_rows<float, Bfloat16>(floats, dst_box, n, slope, view, argmax);
    else
      forward_rows<float, float>(floats, dst_box, n, slope, view, argmax);
  };
  if (dst.type == DataType::kBfloat16)
    write(dst.as<Bfloat16>());
  else
    write(dst.as<float>());
}

}  // namespace HALOMESH_ISA
}  // namespace halomesh
