// SPDX-License-Identifier: Apache-2.0
// The kinds of HDF5 files with samples: names and axes of their datasets.
#pragma once

#include <cstdint>

namespace halomesh {

/// A dataset in a file, and that of the CRC-32C of each of its samples as uint32; nullptr: none.
struct Hdf5Tensor {
  const char *name = nullptr, *checksums = nullptr;
};

/// How samples are stored in a file: values in the order d,h,w,c and float32 targets, or labels in
/// the order d,h,w.
struct Hdf5Kind {
  Hdf5Tensor voxels;
  const char* targets = nullptr;  ///< nullptr: labels instead
  Hdf5Tensor labels{};
  bool stacked = false;   ///< all datasets have the sample number as first axis
  std::int64_t cuts = 1;  ///< the most samples along a spatial axis
  bool is_flat = false;   ///< 2-D images: no axis h, along which a sample has the extent 1
};

/// Archives of this program: x (n,D,H,W,C), y (n,T), crc32c (n); see archive.hpp.
inline constexpr Hdf5Kind kArchiveKind{{"/x", "/crc32c"}, "/y", {}, true};
/// Archives with labels (n,D,H,W) and crc32c_labels (n) in place of y.
inline constexpr Hdf5Kind kLabelArchiveKind{
    {"/x", "/crc32c"}, nullptr, {"/labels", "/crc32c_labels"}, true};
/// The CosmoFlow benchmark's HDF5 files since its version 1.0: x (D,H,W,C), y (T).
inline constexpr Hdf5Kind kSampleKind{{"/x"}, "/y"};
/// The published universes: full (D,H,W,C), unitPar (T). They are cut into 4x4x4 samples in the
/// published order, number 16a+4b+c for the box at (a,b,c), unless the sample is the whole
/// universe.
inline constexpr Hdf5Kind kUniverseKind{{"/full"}, "/unitPar", {}, false, 4};
/// The DeepCAM benchmark's files: images (rows, columns, channels) and their labels. Rows are axis
/// d, so that a part's block is one piece of a file and of memory; columns are axis w.
inline constexpr Hdf5Kind kClimateKind{
    {"/climate/data"}, nullptr, {"/climate/labels_0"}, false, 1, true};

}  // namespace halomesh
