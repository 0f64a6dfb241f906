// SPDX-License-Identifier: Apache-2.0
// The CRC-32C checksum and the masked form in which TFRecord files store it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace halomesh {

/// CRC-32C (Castagnoli) of `bytes`: polynomial 0x1EDC6F41, reflected, initial value and final xor
/// of all ones (RFC 3720, section 12.1). `before` is the checksum of preceding bytes, 0 for none:
/// crc32c(b, crc32c(a)) is the checksum of a followed by b.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// Rotates a checksum right by 15 bits and adds 0xa282ead8, modulo 2^32: the form stored in
/// TFRecord files (TensorFlow, "TFRecords format details").
std::uint32_t masked(std::uint32_t checksum);

/// Returns masked(crc32c(bytes)).
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace halomesh
