// Thirty-two values of bf16 at a time, compared and spread as the integers that they are stored as.
// Half the instructions of going through fp32; knows nothing of layers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "src/nn/layers/convolution_block_lanes.hpp"

namespace halomesh {

constexpr std::int64_t kWideLanes = 32;

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
/// the 127 negative NaN wrap round to the top.
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

/// The values of one half, 0 or 1, in fp32.
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

}  // namespace halomesh
