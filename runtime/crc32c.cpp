// The CRC-32C checksum by Boost.CRC, and TFRecord's masking of it.
// Knows nothing of files or records.
#include "runtime/crc32c.hpp"

#include <bit>
#include <boost/crc.hpp>

namespace halomesh {

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

}  // namespace halomesh
