// SPDX-License-Identifier: Apache-2.0
// The kinds of HDF5 files with samples: names and axes of their datasets.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/hdf5/hdf5_file.hpp"

namespace halomesh {

/// A dataset in a file, and that of the CRC-32C of each of its samples as uint32; empty: none.
struct Hdf5Tensor {
  std::string name{}, checksums{};
};

/// How samples are stored in a file: values in the order d,h,w,c and targets, which are scalars, or
/// labels in the order d,h,w.
struct Hdf5Kind {
  Hdf5Tensor voxels;
  std::string targets{};  ///< empty: labels, or nothing
  Hdf5Tensor labels{};
  bool stacked = false;   ///< all datasets have the sample number as first axis
  std::int64_t cuts = 1;  ///< the most samples along a spatial axis
  bool is_flat = false;   ///< 2-D images: no axis h, along which a sample has the extent 1
  /// The file is part of an archive, and says which.
  bool is_archive = false;
  /// The extents of each file decide whether it has one sample or several, and whether voxels of
  /// one channel have an axis for it.
  bool has_free_axes = false;
  bool has_channels = true;  ///< voxels have an axis of channels
};

/// Archives of this program: x (n,D,H,W,C), y (n,T), crc32c (n); see archive.hpp.
inline const Hdf5Kind kArchiveKind{
    .voxels = {"/x", "/crc32c"}, .targets = "/y", .stacked = true, .is_archive = true};
/// Archives with labels (n,D,H,W) and crc32c_labels (n) in place of y.
inline const Hdf5Kind kLabelArchiveKind{.voxels = {"/x", "/crc32c"},
                                        .labels = {"/labels", "/crc32c_labels"},
                                        .stacked = true,
                                        .is_archive = true};
/// One sample per file, as in the CosmoFlow benchmark since its version 1.0: x (D,H,W,C), y (T); or
/// several: x (n,D,H,W,C), y (n,T). Users may give other names.
inline const Hdf5Kind kSampleKind{.voxels = {"/x"}, .targets = "/y", .has_free_axes = true};
/// The array of a .npy file, of one sample or several, whose targets are elsewhere.
inline const Hdf5Kind kArrayKind{.voxels = {Hdf5File::kArray}, .has_free_axes = true};
/// The published universes: full (D,H,W,C), unitPar (T). They are cut into 4x4x4 samples in the
/// published order, number 16a+4b+c for the box at (a,b,c), unless the sample is the whole
/// universe.
inline const Hdf5Kind kUniverseKind{.voxels = {"/full"}, .targets = "/unitPar", .cuts = 4};
/// The DeepCAM benchmark's files: images (rows, columns, channels) and their labels. Rows are axis
/// d, so that a part's block is one piece of a file and of memory; columns are axis w.
inline const Hdf5Kind kClimateKind{
    .voxels = {"/climate/data"}, .labels = {"/climate/labels_0"}, .is_flat = true};

}  // namespace halomesh
