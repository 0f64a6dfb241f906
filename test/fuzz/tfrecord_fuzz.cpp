// SPDX-License-Identifier: Apache-2.0
// Fuzz target: TFRecord files, plain and gzip, and the Examples in them.
// The first byte of an input says how the rest becomes a file, as checksums stop blind changes.
#include <zlib.h>

#include <cstring>
#include <string>

#include "runtime/posix/crc32c.hpp"
#include "test/fuzz/data_set.hpp"

namespace halomesh::fuzz {
namespace {

void append(std::vector<std::uint8_t>& file, const void* from, std::size_t count) {
  const auto* const bytes = static_cast<const std::uint8_t*>(from);
  file.insert(file.end(), bytes, bytes + count);
}

/// A record with this payload and the right checksums.
std::vector<std::uint8_t> framed(Bytes payload) {
  const std::uint64_t length = payload.size();
  const std::uint32_t length_sum = masked_crc32c(std::as_bytes(std::span(&length, 1)));
  const std::uint32_t payload_sum = masked_crc32c(std::as_bytes(payload));
  std::vector<std::uint8_t> file;
  append(file, &length, sizeof length);
  append(file, &length_sum, sizeof length_sum);
  append(file, payload.data(), payload.size());
  append(file, &payload_sum, sizeof payload_sum);
  return file;
}

std::vector<std::uint8_t> gzipped(Bytes bytes) {
  std::vector<std::uint8_t> file(bytes.size() + 1024 + bytes.size() / 8);
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = file.data();
  stream.avail_out = static_cast<uInt>(file.size());
  deflate(&stream, Z_FINISH);
  file.resize(stream.total_out);
  deflateEnd(&stream);
  return file;
}

}  // namespace
}  // namespace halomesh::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace halomesh::fuzz;
  if (size == 0) return 0;
  const Bytes rest(data + 1, size - 1);
  const auto read = [](Bytes file) { read_data_set("train/a.tfrecord", file); };
  switch (data[0] % 4) {
    case 0:  // the file as it is
      read(rest);
      break;
    case 1:  // the payload of a sound record
      read(framed(rest));
      break;
    case 2:  // the same in a gzip file
      read(gzipped(framed(rest)));
      break;
    default:  // a sound gzip file of anything
      read(gzipped(rest));
  }
  return 0;
}
