// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: a value is a pure function of (seed, stream, counters), so every
// rank, thread and mesh draws the same number for the same global element.
#pragma once

#include <array>
#include <cstdint>

namespace halomesh {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
/// SC'11, section 3.3): ten rounds on a 128-bit counter under a 64-bit key.
inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                               std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// The use of a random number; separates the streams of different uses under one seed.
enum class RandomUse : std::uint32_t {
  kInit = 1,
  kDropout = 2,
  kOrder = 3,
  kSynth = 4,
  kAugment = 5,
  kCrop = 6
};

/// Random numbers of one (seed, use, stream, substream), addressed by a 64-bit index.
/// `stream` has 32 bits and `substream` 32 bits (of which the lower 24 count); e.g. for dropout:
/// stream = step, substream = layer; index = global element.
class CounterRng {
 public:
  CounterRng(std::uint64_t seed, RandomUse use, std::uint32_t stream = 0,
             std::uint32_t substream = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        hi_{stream, (static_cast<std::uint32_t>(use) << 24) | (substream & 0xFFFFFFu)} {}

  /// Four independent 32-bit words for this index.
  std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                       hi_[0], hi_[1]},
                      key_);
  }
  /// Uniform in [0, 1) with 24 bits: exactly representable as a float.
  float uniform(std::uint64_t index) const {
    return static_cast<float>(block(index)[0] >> 8) * 0x1p-24f;
  }
  /// Uniform in [0, 1) with 53 bits.
  double uniform_double(std::uint64_t index) const {
    const auto b = block(index);
    const std::uint64_t bits = (std::uint64_t{b[0]} << 32) | b[1];
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }

 private:
  std::array<std::uint32_t, 2> key_, hi_;
};

}  // namespace halomesh
