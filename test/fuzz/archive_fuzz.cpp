// SPDX-License-Identifier: Apache-2.0
// Fuzz target: files of archives, and the chunks in them.
// The first byte of an input says what the rest is, as checksums stop blind changes.
#include <cstring>

#include "runtime/hdf5/chunk_codec.hpp"
#include "test/fuzz/data_set.hpp"

namespace halomesh::fuzz {
namespace {

/// A stored chunk: the bits of `filters` say which it passed through and which of these did
/// nothing; its checksum is made right.
void decode_chunk(unsigned filters, Bytes bytes) {
  const DatasetLayout layout{
      {1, 3, 4, 5, 2}, (filters & 1U) != 0, (filters & 2U) != 0, (filters & 4U) != 0 ? 4 : 0};
  std::vector<std::byte> stored(bytes.size());
  if (!bytes.empty()) std::memcpy(stored.data(), bytes.data(), bytes.size());
  if (layout.checksum) {
    const std::uint32_t checksum = fletcher32(stored);
    stored.resize(stored.size() + sizeof checksum);
    std::memcpy(stored.data() + bytes.size(), &checksum, sizeof checksum);
  }
  std::vector<std::byte> chunk(static_cast<std::size_t>(2 * kShape.volume()));
  ChunkDecoder().decode(layout, filters >> 3U, stored, chunk, 2);
}

}  // namespace
}  // namespace halomesh::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace halomesh::fuzz;
  if (size == 0) return 0;
  const Bytes rest(data + 1, size - 1);
  if (data[0] >= 64)
    read_data_set("train-00000.h5", rest);
  else
    decode_chunk(data[0], rest);
  return 0;
}
