// SPDX-License-Identifier: Apache-2.0
// One gzip file (RFC 1952) of pieces that are compressed independently of each other. It is a
// single member: readers that stop at the end of the first one read it whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace halomesh {

/// What a piece adds to the checksum and the length at the end of the file.
struct GzipSum {
  std::uint32_t crc = 0;
  std::int64_t size = 0;  ///< bytes before compression

  /// Adds the text that follows.
  GzipSum& operator+=(const GzipSum& next);
};

struct GzipPiece {
  std::string bytes;
  GzipSum sum;
};

/// `text` as deflated blocks that end on a byte boundary and refer to nothing before them. Throws
/// Error when zlib fails.
GzipPiece gzip_piece(std::string_view text);

/// What stands before the first piece and after the last one.
std::string gzip_begin();
std::string gzip_end(const GzipSum& all);

}  // namespace halomesh
