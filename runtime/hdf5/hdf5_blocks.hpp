// SPDX-License-Identifier: Apache-2.0
// Reads blocks of a dataset in an HDF5 file, and only the chunks that they need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/hdf5/chunk_codec.hpp"
#include "runtime/hdf5/hdf5_file.hpp"

namespace halomesh {

/// Reads blocks of one dataset in the type in which it is stored. Chunks with only the filters of
/// DatasetLayout are decoded here, all others by the HDF5 library. A chunk that fails its checksum
/// throws Error naming file and dataset. Counts the bytes read (read_counts.hpp). For one thread at
/// a time.
class Hdf5Blocks {
 public:
  /// `file` must outlive this object. Throws Error if the dataset holds anything but numbers of
  /// Hdf5Type.
  Hdf5Blocks(Hdf5File& file, std::string name);

  const Extents& extents() const { return extents_; }
  Hdf5Type type() const { return type_; }
  /// The number of planes to read at a time along `axis`: the extent of a chunk, a few if the
  /// dataset has no chunks, or all if the library decodes the chunks.
  std::int64_t chunk_extent(std::size_t axis) const;
  /// Reads the elements of a block into `values`: of type(), dense, in the order of the axes.
  void read(const Slab& block, std::span<std::byte> values);

 private:
  void read_chunk(const Extents& offset, const Slab& block, std::span<std::byte> values);

  Hdf5File& file_;
  std::string name_;
  Extents extents_;
  Hdf5Type type_;
  std::optional<DatasetLayout> layout_;  // empty where the library decodes the chunks
  bool is_contiguous_ = false;
  std::vector<std::byte> stored_, chunk_;
  ChunkDecoder decoder_;
};

}  // namespace halomesh
