// The sizes of samples stored as TFRecords. Private to the data set's sources.
// Knows nothing of the order in which samples are used.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/sample_checks.hpp"
#include "shape.hpp"

namespace halomesh {

// Room for the Example's own fields (55 bytes in the benchmark) and for further features.
inline constexpr std::int64_t kExampleSlackBytes = 64 * 1024;

/// The longest record that holds such a sample.
inline std::int64_t largest_payload(const Shape& shape, std::int64_t targets) {
  return voxel_bytes(shape) + targets * static_cast<std::int64_t>(sizeof(float)) +
         kExampleSlackBytes;
}

/// The cure for `bytes` of voxels (and up to `slack` more): the cube they would be, if any.
std::string extents_hint(std::int64_t bytes, std::int64_t slack, const Shape& asked);

}  // namespace halomesh
