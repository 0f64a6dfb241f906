// SPDX-License-Identifier: Apache-2.0
// The CRC-32C checksum by ISA-L, which uses the CPU's instructions for it, and TFRecord's masking.
#include "runtime/posix/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>

namespace halomesh {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  constexpr std::size_t kLargestCall = std::size_t{1} << 30;  // the library counts in an int
  std::uint32_t remainder = ~before;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kLargestCall));
    // The library's signature lacks a const; it only reads.
    auto* const from = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    remainder = crc32_iscsi(from, static_cast<int>(piece.size()), remainder);
    bytes = bytes.subspan(piece.size());
  }
  return ~remainder;
}

std::uint32_t masked(std::uint32_t checksum) { return std::rotr(checksum, 15) + 0xa282ead8u; }

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) { return masked(crc32c(bytes)); }

}  // namespace halomesh
