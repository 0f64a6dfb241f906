// SPDX-License-Identifier: Apache-2.0
// Compression into gzip members: see gzip.hpp.
#include "runtime/trace/gzip.hpp"

#include <zlib.h>

#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {

std::string gzip_member(std::string_view text) {
  constexpr int kGzip = 16, kWindowBits = 15, kMemoryLevel = 8;
  z_stream stream{};
  require(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip + kWindowBits,
                       kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK,
          "zlib cannot compress: out of memory");
  constexpr const char* kTooLarge = "trace fewer steps: --trace-steps FIRST+COUNT";
  std::string out(deflateBound(&stream, narrow<uLong>(text.size())), '\0');
  // zlib never writes to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT
  stream.avail_in = narrow<uInt>(text.size(), kTooLarge);
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = narrow<uInt>(out.size(), kTooLarge);
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  require(result == Z_STREAM_END, fmt::format("zlib failed with code {}", result));
  return out;
}

}  // namespace halomesh
