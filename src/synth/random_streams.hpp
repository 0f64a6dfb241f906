// SPDX-License-Identifier: Apache-2.0
// The substreams of RandomUse::kSynth; a universe's index is the stream.
// Every random value of this room is addressed through them.
#pragma once

#include <cstdint>

namespace halomesh {

inline constexpr std::uint32_t kParameterSubstream = 0;   // index: parameter
inline constexpr std::uint32_t kWhiteNoiseSubstream = 1;  // index: pair of voxels

}  // namespace halomesh
