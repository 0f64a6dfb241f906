// Blocks of a dataset of counts in an HDF5 file, chunk by chunk and no chunk more than needed.
// Knows nothing of what the axes mean.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/chunk_codec.hpp"
#include "runtime/hdf5_file.hpp"

namespace halomesh {

/// Reads int16 blocks of one dataset. Chunks that passed through no filter but those of
/// DatasetLayout are decoded here; all else is read by the HDF5 library. Either way a damaged chunk
/// that carries a checksum is an Error that names file and dataset. Reads are counted
/// (read_bytes.hpp). One thread at a time.
class Hdf5Blocks {
 public:
  /// `file` must outlive this object.
  Hdf5Blocks(Hdf5File& file, std::string name);

  const Extents& extents() const { return extents_; }
  /// Planes along `axis` that a chunk spans: blocks are best read in such steps. Few where there
  /// are no chunks; all where the library decodes chunks.
  std::int64_t chunk_extent(std::size_t axis) const;
  /// `values`: the elements of the block, dense, in the order of the axes.
  void read(const Slab& block, std::span<std::int16_t> values);

 private:
  void read_chunk(const Extents& offset, const Slab& block, std::span<std::int16_t> values);

  Hdf5File& file_;
  std::string name_;
  Extents extents_;
  std::optional<DatasetLayout> layout_;  // where chunks are decoded here
  bool is_contiguous_ = false;
  std::vector<std::byte> stored_;
  std::vector<std::int16_t> chunk_;
  ChunkDecoder decoder_;
};

}  // namespace halomesh
