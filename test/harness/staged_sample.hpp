// SPDX-License-Identifier: Apache-2.0
// A sample kept in blocks with uneven halos, for tests of its redistribution.
#pragma once

#include <cstdint>

#include "partition/partition.hpp"
#include "partition/samples/redistribution.hpp"

namespace halomesh {

/// A sample in blocks with remainder, grown by one plane before and `after` planes after along each
/// spatial axis, and clipped.
inline StagedSample staged_sample(const Shape& shape, const PartGrid& grid, std::int64_t after) {
  StagedSample sample{shape, block_partition(shape, grid), {}};
  for (Box box : sample.owned) {
    if (!box.empty())
      for (const std::size_t a : {kD, kH, kW}) {
        box.lo[a] -= 1;
        box.hi[a] += after;
      }
    sample.blocks.push_back(intersect(box, Box::whole(shape)));
  }
  return sample;
}

}  // namespace halomesh
