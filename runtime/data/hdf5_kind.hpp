// SPDX-License-Identifier: Apache-2.0
// The kinds of HDF5 files that hold samples: names and axes of their datasets.
#pragma once

#include <cstdint>

namespace halomesh {

/// How samples are stored in a file: int16 voxels in the order d,h,w,c and float32 targets.
struct Hdf5Kind {
  const char *voxels, *targets;  ///< names of the datasets
  bool stacked = false;          ///< both have the sample number as first axis
  const char* checksums;         ///< CRC-32C of each sample's voxels as uint32; nullptr: none
  std::int64_t cuts = 1;         ///< samples that a spatial axis may span
};

/// Archives of this program: x (n,D,H,W,C), y (n,T), crc32c (n); see archive.hpp.
inline constexpr Hdf5Kind kArchiveKind{"/x", "/y", true, "/crc32c", 1};
/// The CosmoFlow benchmark's HDF5 files since its version 1.0: x (D,H,W,C), y (T).
inline constexpr Hdf5Kind kSampleKind{"/x", "/y", false, nullptr, 1};
/// The published universes: full (D,H,W,C), unitPar (T). Cut into 4x4x4 samples in the published
/// order, number 16a+4b+c for the box at (a,b,c), unless the sample is the whole universe.
inline constexpr Hdf5Kind kUniverseKind{"/full", "/unitPar", false, nullptr, 4};

}  // namespace halomesh
