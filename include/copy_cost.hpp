// SPDX-License-Identifier: Apache-2.0
// The size from which the threads of a rank share a copy, and the cost of copies.
#pragma once

#include <cstdint>

namespace halomesh {

/// The threads of a rank share copies (packing, unpacking, rounding) of more bytes than these: with
/// fewer, starting them takes about as long as the copy.
inline constexpr std::int64_t kSharedCopyBytes = 128 << 10;

/// Seconds of a copy on one rank.
struct CopyCost {
  double core_s_per_byte = 0;  ///< by one thread
  double s_per_byte = 0;       ///< by all threads of the rank together
  double team_s = 0;           ///< starting and joining them
  double seconds(double bytes) const {
    return bytes > static_cast<double>(kSharedCopyBytes) ? team_s + bytes * s_per_byte
                                                         : bytes * core_s_per_byte;
  }
};

}  // namespace halomesh
