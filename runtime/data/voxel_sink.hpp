// SPDX-License-Identifier: Apache-2.0
// Takes the voxels of a sample piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace halomesh {

/// Takes a piece of a sample's voxels: int16 little-endian in d,h,w,c order, starting at byte
/// `offset` of the sample. Pieces arrive in order, have any size and may end within a voxel; the
/// bytes are valid during the call.
using VoxelSink = std::function<void(std::int64_t offset, std::span<const std::byte> bytes)>;

}  // namespace halomesh
