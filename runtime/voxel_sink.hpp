// What takes the voxels of a sample piece by piece. Knows nothing of where they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace halomesh {

/// Takes bytes of a sample's voxels, int16 little-endian in d,h,w,c order, from byte `offset` of
/// them on; they come in order, in pieces of any size, which may end within a voxel. The bytes are
/// valid during the call.
using VoxelSink = std::function<void(std::int64_t offset, std::span<const std::byte> bytes)>;

}  // namespace halomesh
