// Writing TFRecord framing to plain and gzip files: see tfrecord.hpp.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "error.hpp"
#include "runtime/crc32c.hpp"
#include "runtime/tfrecord.hpp"

namespace halomesh {
namespace {

static_assert(std::endian::native == std::endian::little,
              "TFRecord fields are copied as they are: a big-endian host needs a conversion here");

constexpr std::int64_t kLargestCall = std::int64_t{1} << 30;  // zlib counts in 32 bits

}  // namespace

TfRecordWriter::TfRecordWriter(std::filesystem::path path, Compression compression)
    : file_(std::move(path)) {
  errno = 0;
  // "T" is zlib's own plain mode: one path for both kinds of file.
  stream_ =
      gzopen(file_.temporary_path().c_str(), compression == Compression::kGzip ? "wbe" : "wbeT");
  if (stream_ == nullptr) fail("create", errno);
}

TfRecordWriter::~TfRecordWriter() {
  if (stream_ != nullptr) gzclose(stream_);
}

void TfRecordWriter::fail(const std::string& action, int error_number) const {
  throw Error(cat("cannot ", action, " ", file_.path().string(), ": ", std::strerror(error_number),
                  " (after ", written_bytes_, " bytes of records)"),
              "check that the directory exists, may be written to and has space left");
}

void TfRecordWriter::put(const void* bytes, std::size_t count) {
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const std::size_t piece = std::min(count, static_cast<std::size_t>(kLargestCall));
    errno = 0;
    if (gzwrite(stream_, from, static_cast<unsigned>(piece)) <= 0) fail("write", errno);
    from += piece;
    count -= piece;
    written_bytes_ += static_cast<std::int64_t>(piece);
  }
}

void TfRecordWriter::write(std::string_view payload) {
  require(stream_ != nullptr, cat(file_.path().string(), ": written to after it was committed"));
  const std::uint64_t length = payload.size();
  const std::uint32_t length_crc = masked_crc32c(std::as_bytes(std::span(&length, 1)));
  const std::uint32_t payload_crc = masked_crc32c(std::as_bytes(std::span(payload)));
  put(&length, sizeof length);
  put(&length_crc, sizeof length_crc);
  put(payload.data(), payload.size());
  put(&payload_crc, sizeof payload_crc);
}

void TfRecordWriter::commit() {
  require(stream_ != nullptr, cat(file_.path().string(), ": committed twice"));
  errno = 0;
  const int closed = gzclose(stream_);
  stream_ = nullptr;
  if (closed != Z_OK) fail("write", errno);
  file_.commit();
}

}  // namespace halomesh
