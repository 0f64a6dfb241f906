// SPDX-License-Identifier: Apache-2.0
// A gzip file (RFC 1952) of pieces that are compressed independently of each other. It is a single
// member, so readers that stop at the end of the first member read it whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace halomesh {

/// The contribution of a piece to the checksum and length at the end of the file.
struct GzipSum {
  std::uint32_t crc = 0;
  std::int64_t size = 0;  ///< bytes before compression

  /// Appends the sum of the following text.
  GzipSum& operator+=(const GzipSum& next);
};

struct GzipPiece {
  std::string bytes;
  GzipSum sum;
};

/// Compresses `text` to blocks that end on a byte boundary and refer to nothing before them. Throws
/// Error if zlib fails.
GzipPiece gzip_piece(std::string_view text);

/// The bytes before the first piece and after the last one.
std::string gzip_begin();
std::string gzip_end(const GzipSum& all);

}  // namespace halomesh
