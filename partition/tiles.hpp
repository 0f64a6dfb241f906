// The pieces in which blocks of voxels are handled, so that nobody needs a second block.
// Pure geometry: knows nothing of data, of symmetries or of messages.
#pragma once

#include <cstdint>
#include <vector>

#include "box.hpp"

namespace halomesh {

/// The layers of a block, in the order of its memory (d,h,w,c), each contiguous there: as many
/// whole planes along D as have at most `counts` elements; where one has more, rows of it, at least
/// one.
std::vector<Box> layers_of(const Box& block, std::int64_t counts);

/// Elements of a tile where a pixel has up to 128 channels.
inline constexpr std::int64_t kTileCounts = 16 * 16 * 128;

/// The tiles that a box is made up of: up to 16 x 16 pixels by 128 elements of a row (at least a
/// pixel), so that a tile's lines of memory are used whole however its axes are turned.
std::vector<Box> tiles_of(const Box& box);

}  // namespace halomesh
