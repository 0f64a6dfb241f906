// SPDX-License-Identifier: Apache-2.0
// Compression of pieces of one gzip file: see gzip.hpp.
#include "runtime/trace/gzip.hpp"

#include <zlib.h>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

std::string little_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

}  // namespace

GzipSum& GzipSum::operator+=(const GzipSum& next) {
  crc = narrow<std::uint32_t>(crc32_combine(crc, next.crc, next.size));
  size += next.size;
  return *this;
}

GzipPiece gzip_piece(std::string_view text) {
  constexpr int kRaw = -15, kMemoryLevel = 8;  // without header; with a window of 2^15 bytes
  constexpr int kMostOfFlush = 16;             // the bytes that end a piece, at most
  constexpr const char* kTooLarge = "trace fewer steps: --trace-steps FIRST+COUNT";
  z_stream stream{};
  require(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRaw, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) == Z_OK,
          "zlib cannot compress: out of memory");
  GzipPiece piece;
  piece.bytes.resize(deflateBound(&stream, narrow<uLong>(text.size())) + kMostOfFlush);
  // zlib never writes to its input.
  auto* const input = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT
  stream.next_in = input;
  stream.avail_in = narrow<uInt>(text.size(), kTooLarge);
  stream.next_out = reinterpret_cast<Bytef*>(piece.bytes.data());
  stream.avail_out = narrow<uInt>(piece.bytes.size(), kTooLarge);
  const int result = deflate(&stream, Z_FULL_FLUSH);
  const bool complete = stream.avail_in == 0 && stream.avail_out > 0;
  piece.bytes.resize(stream.total_out);
  deflateEnd(&stream);
  require(result == Z_OK && complete, fmt::format("zlib failed with code {}", result));
  piece.sum.crc = narrow<std::uint32_t>(crc32(0, input, narrow<uInt>(text.size())));
  piece.sum.size = narrow<std::int64_t>(text.size());
  return piece;
}

std::string gzip_begin() {
  // Magic number, deflate, no flags, no time, no level, unknown system: RFC 1952, section 2.3.
  return {"\x1f\x8b\x08\0\0\0\0\0\0\xff", 10};
}

std::string gzip_end(const GzipSum& all) {
  // This is an empty last block with fixed codes: RFC 1951, section 3.2.3.
  return std::string("\x03\0", 2) + little_endian(all.crc) +
         little_endian(static_cast<std::uint32_t>(all.size));
}

}  // namespace halomesh
