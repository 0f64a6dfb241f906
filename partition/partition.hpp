// SPDX-License-Identifier: Apache-2.0
// The boxes of a tensor that parts own. They are disjoint and cover the tensor; some may be empty.
#pragma once

#include <vector>

#include "box.hpp"
#include "partition/mesh_shape.hpp"
#include "partition/window.hpp"

namespace halomesh {

/// The owned box of each part, indexed by part.
using Partition = std::vector<Box>;

/// Planes that block `index` of `count` owns. Blocks differ by at most one plane, the larger come
/// first; empty when there are more blocks than planes.
Range block_range(std::int64_t extent, std::int64_t count, std::int64_t index);

/// Cuts the spatial axes in blocks with remainder; every part has all channels of its block. A
/// tensor of spatial extent 1x1x1 is therefore owned entirely by part 0.
Partition block_partition(const Shape& shape, const PartGrid& grid);
/// The box of one part in block_partition().
Box block_of_part(const Shape& shape, const PartGrid& grid, std::int64_t part);

/// The number of channels that are cut together: the floats in the longest vectors of the supported
/// CPUs (64 bytes: AVX-512, SVE of A64FX), so that no part computes with partly filled vectors.
inline constexpr std::int64_t kChannelVector = 16;

/// True when the boxes are disjoint and together make up the whole tensor.
bool is_partition(const std::vector<Box>& boxes, const Shape& shape);

}  // namespace halomesh
