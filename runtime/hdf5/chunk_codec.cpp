// SPDX-License-Identifier: Apache-2.0
// Decodes HDF5 chunks: see chunk_codec.hpp.
#include "runtime/hdf5/chunk_codec.hpp"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace halomesh {
namespace {

constexpr std::size_t kChecksumBytes = 4;

bool inflate(std::span<const std::byte> from, std::span<std::byte> to) {
  inflate_state stream;
  isal_inflate_init(&stream);
  stream.crc_flag = ISAL_ZLIB;  // includes the header and the Adler-32 checksum, which is checked
  // The library's signature lacks a const; it only reads.
  stream.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(from.data()));
  stream.avail_in = static_cast<std::uint32_t>(from.size());
  stream.next_out = reinterpret_cast<std::uint8_t*>(to.data());
  stream.avail_out = static_cast<std::uint32_t>(to.size());
  return isal_inflate_stateless(&stream) == ISAL_DECOMP_OK && stream.avail_out == 0 &&
         stream.block_state == ISAL_BLOCK_FINISH;
}

/// Restores elements from bytes in order of significance: all first bytes, all second bytes, ...
template <std::size_t kBytes>
void unshuffle(const std::byte* from, std::span<std::byte> to) {
  const std::size_t count = to.size() / kBytes;
  for (std::size_t i = 0; i < count; ++i) {
    std::array<std::byte, kBytes> element;
    for (std::size_t k = 0; k < kBytes; ++k) element[k] = from[k * count + i];
    std::memcpy(to.data() + kBytes * i, element.data(), kBytes);
  }
}

/// Unshuffles two-byte elements in words, which compilers vectorize.
void unshuffle_pairs(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t count = to.size() / 2;
  const std::byte *const low = from.data(), *const high = low + count;
  auto* const words = reinterpret_cast<std::uint16_t*>(to.data());  // NOLINT: aligned for elements
  for (std::size_t i = 0; i < count; ++i)
    words[i] = static_cast<std::uint16_t>(std::to_integer<unsigned>(low[i]) |
                                          (std::to_integer<unsigned>(high[i]) << 8U));
}

void unshuffle(std::span<const std::byte> from, std::span<std::byte> to,
               std::int64_t element_bytes) {
  if (element_bytes == 2)
    unshuffle_pairs(from, to);
  else if (element_bytes == 4)
    unshuffle<4>(from.data(), to);
  else if (element_bytes == 8)
    unshuffle<8>(from.data(), to);
  else
    std::memcpy(to.data(), from.data(), to.size());
}

}  // namespace

std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t kWords = 360;  // the sums of this many words fit 32 bits
  std::uint32_t a = 0, b = 0;
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffffU) + (sum >> 16U); };
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  for (std::size_t words = bytes.size() / 2, at = 0; words > 0;) {
    const std::size_t count = std::min(words, kWords);
    words -= count;
    for (std::size_t i = 0; i < count; ++i, at += 2) {
      a += (byte(at) << 8U) | byte(at + 1);
      b += a;
    }
    a = fold(a);
    b = fold(b);
  }
  if (bytes.size() % 2 != 0) {
    a += byte(bytes.size() - 1) << 8U;
    b += a;
    a = fold(a);
    b = fold(b);
  }
  return (fold(b) << 16U) | fold(a);
}

const char* ChunkDecoder::decode(const DatasetLayout& layout, std::uint32_t skipped,
                                 std::span<const std::byte> stored, std::span<std::byte> chunk,
                                 std::int64_t element_bytes) {
  unsigned filter = 0;  // counts filters in the order in which they were applied
  const auto passed = [&](bool has) { return has && ((skipped >> filter++) & 1U) == 0; };
  const bool shuffled = passed(layout.shuffle), deflated = passed(layout.gzip > 0),
             summed = passed(layout.checksum);
  if (layout.checksum && !summed) return "its checksum is missing";
  if (summed) {
    if (stored.size() < kChecksumBytes) return "it is truncated";
    std::uint32_t expected = 0;
    std::memcpy(&expected, stored.data() + stored.size() - kChecksumBytes, kChecksumBytes);
    stored = stored.first(stored.size() - kChecksumBytes);
    if (fletcher32(stored) != expected) return "its checksum is wrong";
  }
  if (deflated) {
    inflated_.resize(chunk.size());
    if (!inflate(stored, inflated_)) return "its deflate stream is damaged";
    stored = inflated_;
  }
  if (stored.size() != chunk.size()) return "its size is wrong";
  if (shuffled)
    unshuffle(stored, chunk, element_bytes);
  else
    std::memcpy(chunk.data(), stored.data(), stored.size());
  return nullptr;
}

}  // namespace halomesh
