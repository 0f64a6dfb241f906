// SPDX-License-Identifier: Apache-2.0
// Pooling and activation of a fused convolution block: see pooled_activation.hpp.
#include "src/nn/kernels/pooled_activation.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "src/nn/kernels/lanes.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace {

constexpr std::int64_t kMaxTaps = kSlopeBit;

// The places of a window's taps in a dense block of planes.
struct Taps {
  std::array<std::int64_t, kMaxTaps> offsets;  // from the window's first tap, in elements
  std::int64_t count = 0;
  std::int64_t plane, row, pixel;  // elements between neighbouring windows along d, h, w

  Taps(const Spatial& pool, const Box& box) {
    const std::int64_t c = box.extent(kC), width = box.extent(kW) * pool[2] * c;
    const std::int64_t area = box.extent(kH) * pool[1] * width;
    for (std::int64_t d = 0; d < pool[0]; ++d)
      for (std::int64_t h = 0; h < pool[1]; ++h)
        for (std::int64_t w = 0; w < pool[2]; ++w)
          offsets[static_cast<std::size_t>(count++)] = d * area + h * width + w * c;
    plane = pool[0] * area;
    row = pool[1] * width;
    pixel = pool[2] * c;
  }
};

// One row of pooled pixels, each with `channels` elements. Neighbouring pixels are `step` elements
// apart in the tensor, which may have more channels, but `channels` apart in the argmax.
struct Row {
  std::int64_t pixels, channels, step;
  float slope;
};

[[gnu::always_inline]] inline IntLanes load_argmax(const std::uint8_t* from, std::int64_t count) {
  ByteLanes bytes;
  load(from, count, bytes);
  return lanes_of(bytes);
}

template <class Dst>
[[gnu::always_inline]] inline void store_activated(const FloatLanes& value, float slope,
                                                   std::int64_t count, Dst* dst) {
  store_values(value > 0.0F ? value : value * slope, count, dst);
}

// The gradient before the activation.
template <class Dst>
[[gnu::always_inline]] inline FloatLanes activated(const Dst* diff, const std::uint8_t* argmax,
                                                   float slope, std::int64_t count) {
  const FloatLanes value = load_values(diff, count);
  return load_argmax(argmax, count) < std::int32_t{kSlopeBit} ? value : value * slope;
}

[[gnu::always_inline]] inline void add_values(const FloatLanes& value, std::int64_t count,
                                              float* sums) {
  const FloatLanes sum = load_values(sums, count) + value;
  store(sum, count, sums);
}

// pool_row() for kWideLanes channels of one pixel.
template <bool kRemember, class Dst>
[[gnu::always_inline]] inline void pool_wide(const Taps& taps, std::int64_t count, float slope,
                                             const Bfloat16* conv, Dst* dst, std::uint8_t* argmax) {
  WideKeys best = keys_of(load_wide(conv));
  WideShorts largest{};
  for (std::int64_t t = 1; t < count; ++t) {
    const WideKeys value = keys_of(load_wide(conv + taps.offsets[static_cast<std::size_t>(t)]));
    const WideKeys take = value > best;
    best = take ? value : best;
    if constexpr (kRemember)
      largest = take ? WideShorts{} + static_cast<std::uint16_t>(t) : largest;
  }
  const WideShorts bits = bits_of(best);
  for (std::size_t half = 0; half < 2; ++half) {
    const FloatLanes value = half_of(bits, half);
    store_activated(value, slope, kLanes, dst + static_cast<std::int64_t>(half) * kLanes);
  }
  if constexpr (kRemember) {
    const WideKeys rises = (best > kKeyOfZero) & (best <= kKeyOfInfinity);
    largest = rises ? largest : largest | std::uint16_t{kSlopeBit};
    const WideBytes bytes = __builtin_convertvector(largest, WideBytes);
    std::memcpy(argmax, &bytes, sizeof(bytes));
  }
}

// unpool_row() for kWideLanes channels of one pixel.
template <class Dst>
[[gnu::always_inline]] inline void unpool_wide(const Taps& taps, Range range, float slope,
                                               const Dst* diff, const std::uint8_t* argmax,
                                               Bfloat16* block, float* bias) {
  WideBytes bytes;
  std::memcpy(&bytes, argmax, sizeof(bytes));
  WideShorts spread{};
  for (std::size_t half = 0; half < 2; ++half) {
    const std::int64_t c = static_cast<std::int64_t>(half) * kLanes;
    const FloatLanes value = activated(diff + c, argmax + c, slope, kLanes);
    if (bias != nullptr) add_values(value, kLanes, bias + c);
    set_half(spread, half, value);
  }
  const WideShorts place =
      __builtin_convertvector(bytes, WideShorts) & std::uint16_t{kSlopeBit - 1};
  for (std::int64_t t = range.lo; t < range.hi; ++t) {
    const WideShorts share = place == static_cast<std::uint16_t>(t) ? spread : WideShorts{};
    std::memcpy(&block[taps.offsets[static_cast<std::size_t>(t)]].bits, &share, sizeof(share));
  }
}

// Pools one row. Without argmax, only the maxima are found.
template <std::int64_t kTaps, bool kRemember, class Conv, class Dst>
void pool_row(const Taps& taps, const Row& row, const Conv* conv, Dst* dst, std::uint8_t* argmax) {
  const std::int64_t count = kTaps > 0 ? kTaps : taps.count;
  for (std::int64_t w = 0; w < row.pixels; ++w, conv += taps.pixel, dst += row.step) {
    std::int64_t wide = 0;
    if constexpr (std::is_same_v<Conv, Bfloat16>)
      for (; wide + kWideLanes <= row.channels; wide += kWideLanes)
        pool_wide<kRemember>(taps, count, row.slope, conv + wide, dst + wide,
                             kRemember ? argmax + wide : nullptr);
    for_each_lane_block(wide, row.channels, [&](std::int64_t c, auto lanes) {
      const auto tap = [&](std::int64_t t) {
        return load_values(conv + taps.offsets[static_cast<std::size_t>(t)] + c, lanes);
      };
      if constexpr (kRemember) {
        FloatLanes best = tap(0);
        IntLanes largest{};
        for (std::int64_t t = 1; t < count; ++t) {
          const FloatLanes value = tap(t);
          const IntLanes take = (value > best) | (value != value);  // larger, or not a number
          best = take ? value : best;
          largest = take ? IntLanes{} + static_cast<std::int32_t>(t) : largest;
        }
        store_activated(best, row.slope, lanes, dst + c);
        largest = best > 0.0F ? largest : largest | std::int32_t{kSlopeBit};
        store(bytes_of(largest), lanes, argmax + c);
      } else {
        Largest largest(tap(0));
        for (std::int64_t t = 1; t < count; ++t) largest.add(tap(t));
        store_activated(largest.value(), row.slope, lanes, dst + c);
      }
    });
    if constexpr (kRemember) argmax += row.channels;
  }
}

// Writes only taps [first, end) of the windows; `origin` is the place that tap 0 has or would have.
template <std::int64_t kTaps, class Conv, class Dst>
void unpool_row(const Taps& taps, Range range, const Row& row, const Dst* diff,
                const std::uint8_t* argmax, Conv* block, std::int64_t origin, float* bias) {
  if (kTaps > 0) range = {0, kTaps};
  for (std::int64_t w = 0; w < row.pixels; ++w, origin += taps.pixel) {
    std::int64_t wide = 0;
    if constexpr (std::is_same_v<Conv, Bfloat16>)
      for (; wide + kWideLanes <= row.channels; wide += kWideLanes)
        unpool_wide(taps, range, row.slope, diff + wide, argmax + wide, block + origin + wide,
                    bias == nullptr ? nullptr : bias + wide);
    for_each_lane_block(wide, row.channels, [&](std::int64_t c, auto lanes) {
      const FloatLanes value = activated(diff + c, argmax + c, row.slope, lanes);
      if (bias != nullptr) add_values(value, lanes, bias + c);
      const SpreadValue<Conv> spread(value, load_argmax(argmax + c, lanes) & (kSlopeBit - 1));
      for (std::int64_t t = range.lo; t < range.hi; ++t)
        spread.store_at(static_cast<std::int32_t>(t), lanes,
                        block + origin + taps.offsets[static_cast<std::size_t>(t)] + c);
    });
    diff += row.step;
    argmax += row.channels;
  }
}

// Calls body(TensorView of the element type).
template <class View, class Body>
void with_values(const View& view, const Body& body) {
  if (view.type == DataType::kBfloat16)
    body(view.template as<Bfloat16>());
  else
    body(view.template as<float>());
}

template <class T>
T* elements(std::byte* data) {
  return reinterpret_cast<T*>(data);  // NOLINT: aligned for any of these types
}

template <class Body>
void with_elements(const ConvolutionPlanes& planes, const Body& body) {
  if (planes.type == DataType::kBfloat16)
    body(elements<Bfloat16>(planes.data));
  else
    body(elements<float>(planes.data));
}

}  // namespace

BiasSums::BiasSums(std::int64_t channels)
    : channels_((channels + kLanes - 1) / kLanes * kLanes),
      threads_(omp_get_max_threads()),
      rows_(channels_ * threads_),
      totals_(channels_ * threads_) {}

float* BiasSums::begin_row(int thread) { return rows_.data() + thread * channels_; }

void BiasSums::end_row(int thread) {
  float* const row = rows_.data() + thread * channels_;
  double* const total = totals_.data() + thread * channels_;
  for (std::int64_t c = 0; c < channels_; ++c) {
    total[c] += static_cast<double>(row[c]);
    row[c] = 0;
  }
}

void BiasSums::store(float* diff_bias, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int t = 0; t < threads_; ++t) sum += totals_.data()[t * channels_ + c];
    diff_bias[c] = static_cast<float>(sum);
  }
  std::fill_n(totals_.data(), totals_.size(), 0.0);
}

void PooledActivation::forward(const ConvolutionPlanes& planes, const Box& box, std::int64_t n,
                               AnyView dst, Argmax argmax) const {
  const Taps taps(pool, box);
  const Row row{box.extent(kW), box.extent(kC), dst.span.extent(kC), slope};
  const std::int64_t height = box.extent(kH), rows = box.extent(kD) * height;
  with_elements(planes, [&](auto* conv) {
    with_values(dst, [&](auto to) {
#pragma omp parallel for schedule(static) if (rows * row.pixels * row.channels > 4096)
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t d = box.lo[kD] + i / height, h = box.lo[kH] + i % height;
        const auto* from = conv + i / height * taps.plane + i % height * taps.row;
        auto* const y = to.data + to.offset(n, box.lo[kC], d, h, box.lo[kW]);
        std::uint8_t* const won =
            argmax.data == nullptr ? nullptr
                                   : argmax.data + argmax.offset(n, box.lo[kC], d, h, box.lo[kW]);
        const auto pool_with = [&](auto remember) {
          constexpr bool kRemember = decltype(remember)::value;
          if (taps.count == 8)
            pool_row<8, kRemember>(taps, row, from, y, won);
          else
            pool_row<0, kRemember>(taps, row, from, y, won);
        };
        if (won != nullptr)
          pool_with(std::true_type());
        else
          pool_with(std::false_type());
      }
    });
  });
}

void PooledActivation::backward(AnyConstView diff_dst, Argmax argmax, const Box& box,
                                std::int64_t n, const ConvolutionPlanes& planes,
                                BiasSums* bias) const {
  const Taps taps(pool, box);
  const Row row{box.extent(kW), box.extent(kC), diff_dst.span.extent(kC), slope};
  const std::int64_t first = planes.range.lo / pool[0];
  const std::int64_t last = (planes.range.hi - 1) / pool[0];
  const std::int64_t height = box.extent(kH), rows = (last + 1 - first) * height;
  const std::int64_t area = taps.plane / pool[0];
  // Planes of the first window that are not in the range.
  const std::int64_t before = planes.range.lo - first * pool[0];
  with_elements(planes, [&](auto* conv) {
    with_values(diff_dst, [&](auto from) {
      const int threads = bias != nullptr ? bias->threads() : omp_get_max_threads();
#pragma omp parallel for schedule(static) \
    num_threads(threads) if (rows * row.pixels * row.channels > 4096)
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t d = first + i / height, h = box.lo[kH] + i % height;
        const std::int64_t per_plane = pool[1] * pool[2];
        const Range inside{std::max<std::int64_t>(0, planes.range.lo - d * pool[0]) * per_plane,
                           std::min(pool[0], planes.range.hi - d * pool[0]) * per_plane};
        const std::int64_t origin = i / height * taps.plane - before * area + i % height * taps.row;
        const auto* const dy = from.data + from.offset(n, box.lo[kC], d, h, box.lo[kW]);
        const std::uint8_t* const won =
            argmax.data + argmax.offset(n, box.lo[kC], d, h, box.lo[kW]);
        const int thread = omp_get_thread_num();
        float* const sums = bias != nullptr ? bias->begin_row(thread) : nullptr;
        if (taps.count == 8 && inside.extent() == 8)
          unpool_row<8>(taps, inside, row, dy, won, conv, origin, sums);
        else
          unpool_row<0>(taps, inside, row, dy, won, conv, origin, sums);
        if (bias != nullptr) bias->end_row(thread);
      }
    });
  });
}

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
