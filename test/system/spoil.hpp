// SPDX-License-Identifier: Apache-2.0
// Ways to damage a file: truncate it, flip a bit, or change a record while keeping its checksum
// correct.
// Must not use the program's own code for TFRecord framing.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "test/system/job.hpp"

namespace halomesh::test {

inline void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  REQUIRE(file.good());
}

inline void cut_file(const fs::path& path, std::uintmax_t lost_bytes) {
  REQUIRE(fs::file_size(path) > lost_bytes);
  fs::resize_file(path, fs::file_size(path) - lost_bytes);
}

/// Flips one bit in place, so that a reader which has the file open sees it as well.
inline void flip_bit(const fs::path& path, std::uintmax_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
  file.close();
  REQUIRE(file.good());
}

/// The masked CRC-32C of TFRecord, bit by bit: polynomial 0x1EDC6F41 reflected (RFC 3720, 12.1).
inline std::uint32_t masked_checksum(const std::string& bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  crc = ~crc;
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}

/// Replaces bytes of a file's only record, counted from the end of its payload (or from its start
/// where `at` is not negative), and makes its checksum right again.
template <class T>
void patch_record(const fs::path& path, std::int64_t at, T value) {
  constexpr std::size_t kHeaderBytes = 12, kFooterBytes = 4;
  std::string bytes = read_file(path);
  REQUIRE(bytes.size() > kHeaderBytes + kFooterBytes + 64);
  std::string payload = bytes.substr(kHeaderBytes, bytes.size() - kHeaderBytes - kFooterBytes);
  const std::size_t first =
      static_cast<std::size_t>(at < 0 ? static_cast<std::int64_t>(payload.size()) + at : at);
  std::memcpy(payload.data() + first, &value, sizeof value);
  const std::uint32_t checksum = masked_checksum(payload);
  bytes.replace(kHeaderBytes, payload.size(), payload);
  std::memcpy(bytes.data() + bytes.size() - kFooterBytes, &checksum, sizeof checksum);
  write_file(path, bytes);
}

}  // namespace halomesh::test
