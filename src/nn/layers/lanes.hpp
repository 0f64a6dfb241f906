// Sixteen channels at a time: vectors of the compiler (GCC and Clang on any CPU), which keep
// running values in registers where a plain loop over channels would depend on the vectoriser's
// mood. Knows nothing of layers.
#pragma once

#include <cstdint>
#include <cstring>

namespace halomesh {

constexpr std::int64_t kLanes = 16;

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

/// Writes the first `count` <= kLanes lanes to unaligned memory.
template <class Lanes, class T>
[[gnu::always_inline]] inline void store(const Lanes& from, std::int64_t count, T* to) {
  if (count == kLanes) {
    std::memcpy(to, &from, sizeof(from));
  } else {
    std::memcpy(to, &from, static_cast<std::size_t>(count) * sizeof(T));
  }
}

}  // namespace halomesh
