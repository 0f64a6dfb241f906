// The kinds of HDF5 files that hold samples: names and axes of their datasets.
// Knows nothing of how they are read.
#pragma once

#include <cstdint>

namespace halomesh {

/// How samples lie in a file: int16 voxels in the order d,h,w,c and float32 targets.
struct Hdf5Kind {
  const char *voxels, *targets;  ///< names of the datasets
  bool stacked = false;          ///< both have a first axis, the sample's number
  const char* checksums;         ///< CRC-32C of each sample's voxels as uint32; nullptr: none
  std::int64_t cuts = 1;         ///< each spatial axis may span so many samples
};

/// Archives of this program: x (n,D,H,W,C), y (n,T), crc32c (n); see archive.hpp.
inline constexpr Hdf5Kind kArchiveKind{"/x", "/y", true, "/crc32c", 1};
/// The CosmoFlow benchmark's HDF5 files since its version 1.0: x (D,H,W,C), y (T).
inline constexpr Hdf5Kind kSampleKind{"/x", "/y", false, nullptr, 1};
/// The published universes: full (D,H,W,C), unitPar (T). Cut into 4x4x4 samples in the published
/// order, number 16a+4b+c for the box at (a,b,c), unless the sample is the whole universe.
inline constexpr Hdf5Kind kUniverseKind{"/full", "/unitPar", false, nullptr, 4};

}  // namespace halomesh
