// SPDX-License-Identifier: Apache-2.0
// Known answers of CRC-32C and of TFRecord's masked form.
#include "runtime/posix/crc32c.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace halomesh {
namespace {

std::uint32_t crc_of(const std::vector<unsigned char>& bytes) {
  return crc32c(std::as_bytes(std::span(bytes)));
}

std::vector<unsigned char> counting(int first, int step) {
  std::vector<unsigned char> bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<unsigned char>(first + step * i));
  return bytes;
}

TEST_CASE("crc32c: the examples of RFC 3720, appendix B.4") {
  CHECK(crc_of(std::vector<unsigned char>(32, 0x00)) == 0x8A9136AAu);
  CHECK(crc_of(std::vector<unsigned char>(32, 0xFF)) == 0x62A8AB43u);
  CHECK(crc_of(counting(0x00, 1)) == 0x46DD794Eu);
  CHECK(crc_of(counting(0x1F, -1)) == 0x113FDB5Cu);
  const std::vector<unsigned char> read_command = {
      0x01, 0xC0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
      0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  CHECK(read_command.size() == 48);
  CHECK(crc_of(read_command) == 0xD9963A56u);
}

TEST_CASE("crc32c: check value, empty input, masking") {
  const std::string digits = "123456789";
  const auto bytes = std::as_bytes(std::span(digits));
  CHECK(crc32c(bytes) == 0xE3069283u);
  CHECK(crc32c({}) == 0u);
  // 0xE3069283 rotated right by 15 is 0x2507C60D; plus 0xA282EAD8 is 0xC78AB0E5.
  CHECK(masked_crc32c(bytes) == 0xC78AB0E5u);
  CHECK(masked_crc32c({}) == 0xA282EAD8u);
}

}  // namespace
}  // namespace halomesh
