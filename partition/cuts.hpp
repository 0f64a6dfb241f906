// SPDX-License-Identifier: Apache-2.0
// The cut of one layer's output in blocks of space times groups of channels, and the cuts that a
// user may ask for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/partition.hpp"

namespace halomesh {

/// The output of a layer in blocks of space, each of them in groups of channels: space.count() *
/// groups parts. `space` is the grid of the parts made coarser: it divides the grid along each
/// axis, and neighbouring parts share a block, so that the data that a part gathers of its block
/// comes from neighbours. Along an axis with g parts and s blocks, parts at k g/s to (k+1) g/s - 1
/// share block k; the place of a part among those of its block, in the order of part numbers, is
/// its channel group.
struct TensorCut {
  PartGrid space;
  std::int64_t groups = 1;
  friend bool operator==(const TensorCut&, const TensorCut&) = default;
};

/// "4x2": blocks of space x groups of channels.
std::string to_string(const TensorCut& cut);

/// The box of a tensor cut like this that `part` of `grid` owns. Blocks of space differ by at most
/// one plane along each axis, groups by at most one vector of channels (kChannelVector; the last
/// vector may be short); the larger come first. Empty where there are more blocks than planes or
/// more groups than vectors.
Box cut_box(const Shape& shape, const PartGrid& grid, const TensorCut& cut, std::int64_t part);

/// cut_box() of each part of `grid`.
Partition cut_partition(const Shape& shape, const PartGrid& grid, const TensorCut& cut);

/// Every cut over the parts of `grid`, with more blocks of space first; the first is in space
/// alone, the last by channels alone.
std::vector<TensorCut> all_cuts(const PartGrid& grid);

/// The value of --cuts.
struct CutSetting {
  enum class Kind : std::uint8_t {
    kAuto,      ///< each layer by the cut of least cost
    kSpace,     ///< every layer in space
    kChannels,  ///< each layer in space or by channels alone, by the lower cost
    kCells,     ///< each layer in blocks of whole WholeGradients::gradient_cells(), as many as fit
    kList       ///< `list`; layers that it does not name are cut in space
  };
  struct Entry {
    std::string layer;
    std::int64_t blocks = 1, groups = 1;
  };
  Kind kind = Kind::kAuto;
  std::vector<Entry> list{};
};

/// Reads "auto", "space", "channels" or a list such as "conv4:4x2,conv5:1x8", blocks of space x
/// groups of channels. Throws UsageError naming what cannot be read.
CutSetting parse_cuts(const std::string& text);

}  // namespace halomesh
