// Sixteen values at a time of fp32 or bf16 memory, computed with in fp32.
// Conversions, maxima and stores only; knows nothing of layers.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "src/nn/data_type.hpp"
#include "src/nn/layers/lanes.hpp"

namespace halomesh {

using WordLanes __attribute__((vector_size(kLanes * 4))) = std::uint32_t;
using ShortLanes __attribute__((vector_size(kLanes * 2))) = std::uint16_t;

/// Calls body(first channel, channels) for blocks of kLanes channels from `c` on, then for the
/// rest.
template <class Body>
[[gnu::always_inline]] inline void for_each_lane_block(std::int64_t c, std::int64_t channels,
                                                       const Body& body) {
  for (; c + kLanes <= channels; c += kLanes)
    body(c, std::integral_constant<std::int64_t, kLanes>());
  if (c < channels) body(c, channels - c);
}

/// The largest of a series of values, or its last NaN if there is any. The two are found apart:
/// compilers make one instruction of the maximum then.
class Largest {
 public:
  [[gnu::always_inline]] explicit Largest(const FloatLanes& first) : best_(first), nan_(first) {}
  [[gnu::always_inline]] void add(const FloatLanes& value) {
    best_ = value > best_ ? value : best_;
    nan_ = value != value ? value : nan_;
  }
  [[gnu::always_inline]] FloatLanes value() const { return nan_ != nan_ ? nan_ : best_; }

 private:
  FloatLanes best_, nan_;
};

/// The upper halves of the words round to nearest, ties to even; a NaN stays a (quiet) NaN: as
/// Bfloat16(float).
[[gnu::always_inline]] inline WordLanes words_of_bfloat16(const FloatLanes& value) {
  const auto word = std::bit_cast<WordLanes>(value);
  const WordLanes rounded = word + 0x7fffU + ((word >> 16U) & 1U);
  return value == value ? rounded : word | 0x00400000U;
}
[[gnu::always_inline]] inline ShortLanes to_bfloat16(const FloatLanes& value) {
  return __builtin_convertvector(words_of_bfloat16(value) >> 16U, ShortLanes);
}

/// The value that memory of type T would give back.
template <class T>
[[gnu::always_inline]] inline FloatLanes rounded_to(const FloatLanes& value) {
  if constexpr (std::is_same_v<T, float>) return value;
  return std::bit_cast<FloatLanes>(words_of_bfloat16(value) & 0xffff0000U);
}

/// Reads `count` <= kLanes values; the other lanes are zero.
[[gnu::always_inline]] inline FloatLanes load_values(const float* from, std::int64_t count) {
  FloatLanes value;
  load(from, count, value);
  return value;
}
[[gnu::always_inline]] inline FloatLanes load_values(const Bfloat16* from, std::int64_t count) {
  ShortLanes bits;
  load(&from->bits, count, bits);
  return std::bit_cast<FloatLanes>(__builtin_convertvector(bits, WordLanes) << 16U);
}

/// Writes the first `count` <= kLanes values, rounded to the type of the memory.
[[gnu::always_inline]] inline void store_values(const FloatLanes& value, std::int64_t count,
                                                float* to) {
  store(value, count, to);
}
[[gnu::always_inline]] inline void store_values(const FloatLanes& value, std::int64_t count,
                                                Bfloat16* to) {
  store(to_bfloat16(value), count, &to->bits);
}

/// Values that each go to one of several places and leave zero at the others.
template <class T>
struct SpreadValue;
template <>
struct SpreadValue<float> {
  FloatLanes value;
  IntLanes place;
  [[gnu::always_inline]] SpreadValue(const FloatLanes& values, const IntLanes& places)
      : value(values), place(places) {}
  [[gnu::always_inline]] void store_at(std::int32_t here, std::int64_t count, float* to) const {
    const FloatLanes share = place == here ? value : FloatLanes{};
    store(share, count, to);
  }
};
template <>
struct SpreadValue<Bfloat16> {
  ShortLanes value, place;
  [[gnu::always_inline]] SpreadValue(const FloatLanes& values, const IntLanes& places)
      : value(to_bfloat16(values)), place(__builtin_convertvector(places, ShortLanes)) {}
  [[gnu::always_inline]] void store_at(std::int32_t here, std::int64_t count, Bfloat16* to) const {
    const ShortLanes share = place == static_cast<std::uint16_t>(here) ? value : ShortLanes{};
    store(share, count, &to->bits);
  }
};

}  // namespace halomesh
