// SPDX-License-Identifier: Apache-2.0
// The substreams of RandomUse::kSynth; the index of a universe or sample is the stream.
// Every random value of this room is addressed through them.
#pragma once

#include <cstdint>

namespace halomesh {

inline constexpr std::uint32_t kParameterSubstream = 0;   // index: parameter
inline constexpr std::uint32_t kWhiteNoiseSubstream = 1;  // index: pair of voxels
inline constexpr std::uint32_t kBodySubstream = 2;        // index: number drawn for a body
inline constexpr std::uint32_t kVoxelNoiseSubstream = 3;  // index: value
// This and the following substreams; index: lattice node.
inline constexpr std::uint32_t kSmoothSubstream = 16;

}  // namespace halomesh
