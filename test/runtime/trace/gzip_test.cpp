// SPDX-License-Identifier: Apache-2.0
// One gzip file of independent pieces, unpacked by zlib.
#include "runtime/trace/gzip.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include <string>
#include <vector>

namespace halomesh {
namespace {

/// The first member of `bytes` unpacked; "" unless it is whole and nothing follows it.
std::string unpacked(std::string bytes, std::size_t size) {
  constexpr int kGzip = 15 + 16;
  z_stream stream{};
  REQUIRE(inflateInit2(&stream, kGzip) == Z_OK);
  std::string text(size + 1, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const int result = inflate(&stream, Z_FINISH);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return result == Z_STREAM_END && stream.avail_in == 0 ? text : "";
}

}  // namespace

TEST_CASE("pieces of any size make one gzip member") {
  std::vector<std::string> texts = {"[", std::string(300'000, 'x'), "", "a\nb"};
  std::string noise;
  for (std::uint32_t i = 0, state = 1; i < 100'000; ++i) {
    state = state * 1664525 + 1013904223;
    noise += static_cast<char>(state >> 24);
  }
  texts.push_back(noise);
  std::string file = gzip_begin(), whole;
  GzipSum all;
  for (const std::string& text : texts) {
    const GzipPiece piece = gzip_piece(text);
    file += piece.bytes;
    all += piece.sum;
    whole += text;
  }
  file += gzip_end(all);
  CHECK(all.size == static_cast<std::int64_t>(whole.size()));
  CHECK(unpacked(file, whole.size()) == whole);
  CHECK(unpacked(gzip_begin() + gzip_piece("b").bytes + gzip_end(gzip_piece("a").sum), 1).empty());
}

}  // namespace halomesh
