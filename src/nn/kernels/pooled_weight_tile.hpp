// SPDX-License-Identifier: Apache-2.0
// The innermost loops of PooledWeightGradient, which sum one tile's windows in registers, and the
// copies that lay a tile out for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "shape.hpp"
#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/lanes.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {
namespace pooled_weight {

constexpr std::int64_t kVector = kLanes;
// Registers to hold sums in: all except those for gradients and source vectors.
constexpr std::int64_t kMaxSums = kRegisters * 3 / 4;
constexpr std::int64_t kMaxChannels = 8;

using Vector = FloatLanes;

[[gnu::always_inline]] inline Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
[[gnu::always_inline]] inline void store(const Vector& v, float* to) {
  std::memcpy(to, &v, sizeof(v));
}

// Calls body(std::integral_constant<0>), ... one after the other, without a loop that might not be
// unrolled.
template <std::int64_t kCount, class Body>
[[gnu::always_inline]] inline void unroll(const Body& body) {
  [&]<std::int64_t... kIndex>(std::integer_sequence<std::int64_t, kIndex...>)
      __attribute__((always_inline)) {
    (body(std::integral_constant<std::int64_t, kIndex>()), ...);
  }
  (std::make_integer_sequence<std::int64_t, kCount>());
}

constexpr std::int64_t ceil_to(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Copies `count` runs of `vectors` vectors, `from_step` and `to_step` apart; reads whole vectors.
inline void copy_vectors(const float* from, std::int64_t from_step, std::int64_t vectors,
                         std::int64_t count, float* to, std::int64_t to_step) {
  for (std::int64_t i = 0; i < count; ++i, from += from_step, to += to_step)
    for (std::int64_t n = 0; n < vectors; ++n) store(load(from + n * kVector), to + n * kVector);
}

// Copies `count` runs of `run` floats, `from_step` and `to_step` apart. A run is short: kRun, or
// any length when that is 0, in pieces that the compiler copies without a call.
template <std::int64_t kRun>
void copy_runs_of(const float* from, std::int64_t from_step, std::int64_t run, std::int64_t count,
                  float* to, std::int64_t to_step) {
  constexpr std::int64_t kPiece = kRun == 0 ? 1 : kRun;
  for (std::int64_t i = 0; i < count; ++i, from += from_step, to += to_step)
    for (std::int64_t at = 0; at < (kRun == 0 ? run : kRun); at += kPiece)
      std::memcpy(to + at, from + at, kPiece * sizeof(float));
}
inline void copy_runs(const float* from, std::int64_t from_step, std::int64_t run,
                      std::int64_t count, float* to, std::int64_t to_step) {
  const auto copy = run == 8 ? copy_runs_of<8> : run == 4 ? copy_runs_of<4> : copy_runs_of<0>;
  copy(from, from_step, run, count, to, to_step);
}

// Writes diff, times the slope where the argmax has the bit `sloped`, to `to`, and adds it to
// `sum`.
template <class T>
void scale_and_sum(const T* diff, const std::uint8_t* argmax, std::uint8_t sloped, float slope,
                   std::int64_t count, float* __restrict to, float* __restrict sum) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float scale = (argmax[i] & sloped) != 0 ? slope : 1.0F;
    const float value = static_cast<float>(diff[i]) * scale;
    to[i] = value;
    sum[i] += value;
  }
}

inline void add_and_clear(std::span<float> from, std::span<float> to) {
  float* __restrict source = from.data();
  float* __restrict sum = to.data();
  for (std::size_t i = 0; i < to.size(); ++i) {
    sum[i] += source[i];
    source[i] = 0;
  }
}

// The voxels of a tile as the innermost loop reads them.
struct TileVoxels {
  std::int64_t count;
  std::int64_t row_step, plane_step;  // between rows and planes of a window
  const std::int32_t* offset;         // places of their windows
  const std::int32_t* tap_offset;
  const std::uint8_t* argmax;  // all channels of each voxel, as diff
  const float* diff;
  std::int64_t channels;
};

// Adds the sums of kD x kH x kN vectors of the windows of kC channels over a tile to sums[channel].
template <std::int64_t kD, std::int64_t kH, std::int64_t kN, std::int64_t kC>
void accumulate_tile(const TileVoxels& voxels, const float* window, std::int64_t channel,
                     float* sums) {
  Vector sum[kC][kD][kH][kN] = {};
  const float* g = voxels.diff + channel;
  const std::int64_t row_step = voxels.row_step, plane_step = voxels.plane_step;
  const std::uint8_t* largest = voxels.argmax + channel;
  for (std::int64_t v = 0; v < voxels.count; ++v) {
    const float* voxel = window + voxels.offset[v];
    unroll<kC>([&](auto c) __attribute__((always_inline)) {
      const float* at = voxel + voxels.tap_offset[largest[c]];
      const float scale = g[c];
      unroll<kD>([&](auto kd) __attribute__((always_inline)) {
        unroll<kH>([&](auto kh) __attribute__((always_inline)) {
          unroll<kN>([&](auto n) __attribute__((always_inline)) {
            sum[c][kd][kh][n] += scale * load(at + kd * plane_step + kh * row_step + n * kVector);
          });
        });
      });
    });
    largest += voxels.channels;
    g += voxels.channels;
  }
  float* to = sums + channel * (kD * kH * kN * kVector);
  unroll<kC * kD * kH * kN>([&](auto i) __attribute__((always_inline)) {
    constexpr std::int64_t kI = decltype(i)::value;
    const Vector& from = sum[kI / (kD * kH * kN)][kI / (kH * kN) % kD][kI / kN % kH][kI % kN];
    store(load(to + kI * kVector) + from, to + kI * kVector);
  });
}

}  // namespace pooled_weight
}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
