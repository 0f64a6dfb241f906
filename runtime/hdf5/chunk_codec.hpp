// SPDX-License-Identifier: Apache-2.0
// Undoes the filters of HDF5 chunks: checksum, deflate, shuffle. Uses ISA-L, which is several times
// faster than the HDF5 library with zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/hdf5/hdf5_types.hpp"

namespace halomesh {

/// An upper bound for the stored size of a compressed chunk of `size` bytes.
constexpr std::size_t largest_stored(std::size_t size) { return size + size / 8 + 1024; }

/// A decoder for one thread; its memory is reused.
class ChunkDecoder {
 public:
  /// Fills `chunk`, whose elements have `element_bytes` each, from its stored bytes. `layout` says
  /// which filters apply, and `skipped` which of these were skipped (see Hdf5File::read_chunk).
  /// Returns nullptr, or a description of the error.
  const char* decode(const DatasetLayout& layout, std::uint32_t skipped,
                     std::span<const std::byte> stored, std::span<std::byte> chunk,
                     std::int64_t element_bytes);

 private:
  std::vector<std::byte> inflated_;
};

/// Fletcher's checksum as HDF5 stores it after a chunk: over big-endian 16-bit words modulo 65535;
/// an odd last byte is the upper half of a word (HDF5 Library, H5_checksum_fletcher32).
std::uint32_t fletcher32(std::span<const std::byte> bytes);

}  // namespace halomesh
