// SPDX-License-Identifier: Apache-2.0
// Takes the values of a sample piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace halomesh {

/// Takes a piece of a sample's image or labels: values in d,h,w,c order, of the type and byte order
/// of the memory, starting at byte `offset`. Pieces arrive in order, have any size and may end
/// within a value; the bytes are valid during the call.
using VoxelSink = std::function<void(std::int64_t offset, std::span<const std::byte> bytes)>;

}  // namespace halomesh
