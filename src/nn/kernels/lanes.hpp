// SPDX-License-Identifier: Apache-2.0
// As many channels at a time as a register holds: vectors of the compiler (GCC and Clang on any
// CPU), which keep running values in registers where a plain loop over channels would depend on the
// vectorizer. Arithmetic on fp32 or bf16 memory is in fp32; only comparisons of bf16 use twice as
// many lanes, of integers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/nn/data_type.hpp"
#include "src/nn/kernels/isa.hpp"

// Where no register has the size of a vector, GCC warns of functions that return one; all such
// functions, here and in files that include this, are inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace halomesh {
inline namespace HALOMESH_VECTORS {

// The width of a register; GCC keeps arrays of wider vectors in memory.
#if defined(__AVX512F__) || (defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS >= 512)
constexpr std::int64_t kLanes = 16;
#elif defined(__AVX__) || (defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == 256)
constexpr std::int64_t kLanes = 8;
#else
constexpr std::int64_t kLanes = 4;
#endif
// The number of vector registers of the CPU.
#if (defined(__x86_64__) || defined(__i386__)) && !defined(__AVX512F__)
constexpr std::int64_t kRegisters = 16;
#else
constexpr std::int64_t kRegisters = 32;
#endif

using FloatLanes __attribute__((vector_size(kLanes * 4))) = float;
using IntLanes __attribute__((vector_size(kLanes * 4))) = std::int32_t;
using ByteLanes __attribute__((vector_size(kLanes))) = std::uint8_t;

/// Reads `count` <= kLanes elements from unaligned memory; the other lanes are zero.
template <class Lanes, class T>
[[gnu::always_inline]] inline void load(const T* from, std::int64_t count, Lanes& to) {
  if (count == kLanes) {
    std::memcpy(&to, from, sizeof(to));
  } else {
    to = Lanes{};
    std::memcpy(&to, from, static_cast<std::size_t>(count) * sizeof(T));
  }
}

/// The value, kept in a register: GCC 12 may otherwise read a vector with many uses from memory for
/// each of them.
template <class Lanes>
[[gnu::always_inline]] inline Lanes in_register(Lanes value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#elif defined(__x86_64__)
  asm("" : "+x"(value));
#endif
  return value;
}

/// Writes the first `count` <= kLanes lanes to unaligned memory.
template <class Lanes, class T>
[[gnu::always_inline]] inline void store(const Lanes& from, std::int64_t count, T* to) {
  if (count == kLanes) {
    std::memcpy(to, &from, sizeof(from));
  } else {
    std::memcpy(to, &from, static_cast<std::size_t>(count) * sizeof(T));
  }
}

/// The lowest byte of each lane. GCC 12 would convert the lanes one by one where a vector has
/// eight.
template <class Ints>
[[gnu::always_inline]] inline ByteLanes bytes_of(const Ints& lanes) {
  if constexpr (sizeof(Ints) == 32) {
    using Bytes __attribute__((vector_size(sizeof(Ints)))) = std::uint8_t;
    const auto bytes = std::bit_cast<Bytes>(lanes);
    return __builtin_shufflevector(bytes, bytes, 0, 4, 8, 12, 16, 20, 24, 28);
  } else {
    return __builtin_convertvector(lanes, ByteLanes);
  }
}
template <class Bytes>
[[gnu::always_inline]] inline IntLanes lanes_of(const Bytes& bytes) {
  if constexpr (sizeof(Bytes) == 8) {
    using Longs __attribute__((vector_size(32))) = std::int64_t;
    using Spread __attribute__((vector_size(32))) = std::uint8_t;
    const auto all = std::bit_cast<Spread>(Longs{} + std::bit_cast<std::int64_t>(bytes));
    return std::bit_cast<IntLanes>(__builtin_shufflevector(
               all, all, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 20, 20, 20, 20, 21, 21, 21,
               21, 22, 22, 22, 22, 23, 23, 23, 23)) &
           0xff;
  } else {
    return __builtin_convertvector(bytes, IntLanes);
  }
}

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

/// The largest of a series of values, or its last NaN if there is any. The two are found
/// separately, so that compilers emit one instruction for the maximum.
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

/// The bits of Bfloat16(float) in the upper halves of the words: rounded to nearest, ties to even;
/// a NaN stays a (quiet) NaN. The lower halves have no meaning.
[[gnu::always_inline]] inline WordLanes words_of_bfloat16(const FloatLanes& value) {
  const auto word = std::bit_cast<WordLanes>(value);
  const WordLanes rounded = word + 0x7fffU + ((word >> 16U) & 1U);
  return value == value ? rounded : word | 0x00400000U;
}
[[gnu::always_inline]] inline ShortLanes to_bfloat16(const FloatLanes& value) {
  return __builtin_convertvector(words_of_bfloat16(value) >> 16U, ShortLanes);
}

/// The value after storing it in memory of type T.
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

/// A value per lane that goes to one of several places and leaves zero at the others.
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

// bf16 values are compared and spread as the integers that represent them, which takes half the
// instructions of a detour through fp32.
constexpr std::int64_t kWideLanes = 2 * kLanes;

using WideShorts __attribute__((vector_size(kWideLanes * 2))) = std::uint16_t;
using WideKeys __attribute__((vector_size(kWideLanes * 2))) = std::int16_t;
using WideBytes __attribute__((vector_size(kWideLanes))) = std::uint8_t;

[[gnu::always_inline]] inline WideShorts load_wide(const Bfloat16* from) {
  WideShorts bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

/// Integers in the order of the values, except that NaN of either sign is above infinity and -0
/// below +0. The magnitude of negative values is reversed; then all are moved down by 127, so that
/// the 127 negative NaNs wrap around to the top.
constexpr std::uint16_t kKeyOffset = 127;
[[gnu::always_inline]] inline WideShorts reverse_negative(const WideShorts& bits) {
  const WideKeys sign = std::bit_cast<WideKeys>(bits) >> 15;
  return bits ^ (std::bit_cast<WideShorts>(sign) & std::uint16_t{0x7fff});
}
[[gnu::always_inline]] inline WideKeys keys_of(const WideShorts& bits) {
  return std::bit_cast<WideKeys>(reverse_negative(bits) - kKeyOffset);
}
[[gnu::always_inline]] inline WideShorts bits_of(const WideKeys& keys) {
  return reverse_negative(std::bit_cast<WideShorts>(keys) + kKeyOffset);
}
constexpr std::int16_t kKeyOfZero = -kKeyOffset;
constexpr std::int16_t kKeyOfInfinity = 0x7f80 - kKeyOffset;

/// The values of half number `half`, 0 or 1, in fp32.
[[gnu::always_inline]] inline FloatLanes half_of(const WideShorts& bits, std::size_t half) {
  ShortLanes part;
  std::memcpy(&part, reinterpret_cast<const char*>(&bits) + half * sizeof(part), sizeof(part));
  return std::bit_cast<FloatLanes>(__builtin_convertvector(part, WordLanes) << 16U);
}
[[gnu::always_inline]] inline void set_half(WideShorts& bits, std::size_t half,
                                            const FloatLanes& values) {
  const ShortLanes part = to_bfloat16(values);
  std::memcpy(reinterpret_cast<char*>(&bits) + half * sizeof(part), &part, sizeof(part));
}

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
