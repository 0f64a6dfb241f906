// Undoes the filters of an HDF5 chunk of 16-bit elements: checksum, deflate, shuffle.
// Knows nothing of files; does by ISA-L what the HDF5 library does several times slower by zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/hdf5_file.hpp"

namespace halomesh {

/// The most bytes that `size` bytes become by filters that mean to shorten them.
constexpr std::size_t largest_stored(std::size_t size) { return size + size / 8 + 1024; }

/// One thread's decoder; its memory is reused from chunk to chunk.
class ChunkDecoder {
 public:
  /// Fills `chunk` from its stored bytes; `layout` says which filters they passed through and
  /// `skipped` which of these did nothing (see Hdf5File::read_chunk). nullptr when all is well,
  /// else what is wrong.
  const char* decode(const DatasetLayout& layout, std::uint32_t skipped,
                     std::span<const std::byte> stored, std::span<std::int16_t> chunk);

 private:
  std::vector<std::byte> inflated_;
};

/// Fletcher's checksum as HDF5 stores it after a chunk: of big-endian 16-bit words modulo 65535, an
/// odd last byte as a word's upper half (HDF5 Library, H5_checksum_fletcher32).
std::uint32_t fletcher32(std::span<const std::byte> bytes);

}  // namespace halomesh
