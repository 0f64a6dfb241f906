// A sample kept in blocks with uneven halos, as tests of its delivery want it.
// Knows nothing of what is delivered.
#pragma once

#include <cstdint>

#include "partition/delivery.hpp"
#include "partition/partition.hpp"

namespace halomesh {

/// Blocks with remainder, grown by one plane before and `after` planes after along each spatial
/// axis, and clipped.
inline KeptSample kept_sample(const Shape& shape, const PartGrid& grid, std::int64_t after) {
  KeptSample sample{shape, block_partition(shape, grid), {}};
  for (Box box : sample.owned) {
    if (!box.empty())
      for (const std::size_t a : {kD, kH, kW}) {
        box.lo[a] -= 1;
        box.hi[a] += after;
      }
    sample.kept.push_back(intersect(box, Box::whole(shape)));
  }
  return sample;
}

}  // namespace halomesh
