// SPDX-License-Identifier: Apache-2.0
// TFRecord framing of plain and gzip files: see tfrecord.hpp.
#include "runtime/data/tfrecord.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "error.hpp"
#include "runtime/posix/crc32c.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/posix/read_counts.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

static_assert(std::endian::native == std::endian::little,
              "TFRecord fields are copied as they are: a big-endian host needs a conversion here");

constexpr std::int64_t kHeaderBytes = 12, kFooterBytes = 4;
constexpr std::int64_t kLargestCall = std::int64_t{1} << 30;  // zlib counts in 32 bits
constexpr const char* kDamaged = "copy or generate the file again";

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool header_checks(const std::array<std::byte, kHeaderBytes>& header) {
  return load<std::uint32_t>(header.data() + 8) == masked_crc32c(std::span(header).first<8>());
}

/// Whether these are the first bytes of a zlib stream (RFC 1950, 2.2).
bool starts_zlib(const std::array<std::byte, kHeaderBytes>& header) {
  const auto method = std::to_integer<unsigned>(header[0]),
             flags = std::to_integer<unsigned>(header[1]);
  return method == 0x78 && (256 * method + flags) % 31 == 0;
}

std::int64_t pread_all(int fd, void* dst, std::int64_t count, std::int64_t offset) {
  std::int64_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(fd, static_cast<char*>(dst) + done,
                                static_cast<std::size_t>(count - done), offset + done);
    if (got == 0) break;
    if (got > 0)
      done += got;
    else if (errno != EINTR)
      return -1;
  }
  return done;
}

}  // namespace

TfRecordReader::TfRecordReader(std::int64_t max_payload_bytes, std::int64_t gzip_bytes)
    : max_payload_bytes_(max_payload_bytes), gzip_bytes_(gzip_bytes) {}

TfRecordReader::~TfRecordReader() { close(); }

void TfRecordReader::close() {
  if (gz_ != nullptr) gzclose(gz_);
  gz_ = nullptr;
  file_ = {};
}

void TfRecordReader::fail(const std::string& what, const std::string& hint) const {
  throw Error(fmt::format("{}: record {} at byte {}: {}", path_, record_, offset_, what), hint);
}

void TfRecordReader::open(std::string_view path, Descriptor opened) {
  close();
  path_.assign(path);
  offset_ = record_ = position_ = compressed_offset_ = 0;
  peeked_.reset();
  file_ = std::move(opened);
  if (file_.get() < 0) file_ = open_input_file(path_);
  struct stat status {};
  require(::fstat(file_.get(), &status) == 0, "cannot read the size of an open file");
  file_bytes_ = status.st_size;
  std::array<std::byte, kHeaderBytes> header{};
  const std::int64_t got = pread_all(file_.get(), header.data(), kHeaderBytes, 0);
  if (got < 0) throw read_error("read", path_, errno);
  // A plain record may have a length that looks like gzip's magic number; its checksum decides.
  const bool magic = got >= 2 && header[0] == std::byte{0x1f} && header[1] == std::byte{0x8b};
  if (!magic || (got == kHeaderBytes && header_checks(header))) return;
  // The stream gets its own descriptor, because holds_one_record() reads the trailer from file_.
  const int stream_fd = ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0);
  if (stream_fd >= 0) gz_ = gzdopen(stream_fd, "rb");
  if (gz_ == nullptr) {
    if (stream_fd >= 0) ::close(stream_fd);
    throw Error(fmt::format("cannot open {}: out of memory or descriptors", path_),
                "raise the limit of open files (ulimit -n)");
  }
  gzbuffer(gz_, static_cast<unsigned>(gzip_bytes_));
}

std::int64_t TfRecordReader::read_some(void* dst, std::int64_t count) {
  const CountedRead read;
  if (gz_ == nullptr) {
    const std::int64_t got = pread_all(file_.get(), dst, count, position_);
    if (got < 0) throw read_error("read", path_, errno);
    position_ += got;
    read.count(got);
    return got;
  }
  std::int64_t done = 0;
  while (done < count) {
    const auto piece = static_cast<unsigned>(std::min(count - done, kLargestCall));
    const int got = gzread(gz_, static_cast<char*>(dst) + done, piece);
    int code = Z_OK;
    const int number = errno;
    const char* text = gzerror(gz_, &code);
    if (code == Z_ERRNO) throw read_error("read", path_, number);
    if (code != Z_OK && code != Z_STREAM_END)
      fail(fmt::format("damaged gzip stream: {}", text), kDamaged);
    if (got <= 0) break;
    done += got;
  }
  position_ += done;
  const std::int64_t now = gzoffset(gz_);
  // The stream has started again after a step back.
  read.count(now < compressed_offset_ ? now : now - compressed_offset_);
  compressed_offset_ = now;
  return done;
}

void TfRecordReader::read_field(void* dst, std::int64_t count, const char* field) {
  const std::int64_t got = read_some(dst, count);
  if (got != count)
    fail(fmt::format("truncated in the {}: expected {} bytes, found {}", field, count, got),
         kDamaged);
}

std::int64_t TfRecordReader::read_header() {
  std::array<std::byte, kHeaderBytes> header{};
  const std::int64_t got = read_some(header.data(), kHeaderBytes);
  if (got == 0) return -1;
  if (got < kHeaderBytes)
    fail(fmt::format("truncated in the {}: expected {} bytes, found {}",
                     got < 8 ? "length" : "checksum of the length", kHeaderBytes, got),
         kDamaged);
  if (!header_checks(header) && record_ == 0 && starts_zlib(header))
    fail("compressed by zlib, which is not read", "compress the file by gzip, or not at all");
  if (!header_checks(header))
    fail(fmt::format(
             "{}: checksum of the length: expected {:#x}, found {:#x}",
             record_ == 0 ? "not a TFRecord file, or damaged in its first 12 bytes" : "damaged",
             masked_crc32c(std::span(header).first<8>()), load<std::uint32_t>(header.data() + 8)),
         record_ == 0 ? fmt::format("keep only TFRecord files in the directory, or {}", kDamaged)
                      : kDamaged);
  const auto length = load<std::uint64_t>(header.data());
  if (length > static_cast<std::uint64_t>(max_payload_bytes_))
    fail(fmt::format("payload of {} bytes, expected at most {}", length, max_payload_bytes_),
         "check that --input DxHxWxC is the sample size of the data");
  if (gz_ == nullptr &&
      length > static_cast<std::uint64_t>(std::max<std::int64_t>(file_bytes_ - position_, 0)))
    fail(fmt::format("truncated in the payload: expected {} bytes, found {}", length,
                     file_bytes_ - position_),
         kDamaged);
  return static_cast<std::int64_t>(length);
}

std::int64_t TfRecordReader::peek_length() {
  if (!peeked_) peeked_ = read_header();
  return *peeked_;
}

bool TfRecordReader::holds_one_record() {
  const std::int64_t length = peek_length();
  if (length < 0) return false;
  if (gz_ == nullptr) return length + kTfRecordFramingBytes == file_bytes_;
  std::uint32_t stream_bytes = 0;
  const std::int64_t got =
      pread_all(file_.get(), &stream_bytes, sizeof stream_bytes, file_bytes_ - kFooterBytes);
  if (got < 0) throw read_error("read", path_, errno);
  return got == kFooterBytes &&
         stream_bytes == static_cast<std::uint32_t>(length + kTfRecordFramingBytes);
}

std::int64_t TfRecordReader::begin() {
  const std::int64_t length = peek_length();
  peeked_.reset();
  payload_left_ = std::max<std::int64_t>(length, 0);
  payload_crc_ = 0;
  return length;
}

std::int64_t TfRecordReader::read(void* dst, std::int64_t count) {
  count = std::min(count, payload_left_);
  read_field(dst, count, "payload");
  payload_crc_ =
      crc32c({static_cast<const std::byte*>(dst), static_cast<std::size_t>(count)}, payload_crc_);
  payload_left_ -= count;
  return count;
}

std::int64_t TfRecordReader::step_over(std::int64_t count) {
  count = std::min(count, payload_left_);
  if (gz_ == nullptr) {
    position_ += count;
    payload_left_ -= count;
    return count;
  }
  std::array<char, 16384> unread{};
  for (std::int64_t left = count; left > 0;)
    left -= read(unread.data(), std::min<std::int64_t>(left, unread.size()));
  return count;
}

void TfRecordReader::end() {
  std::array<char, 65536> unread{};
  while (payload_left_ > 0) read(unread.data(), unread.size());
  std::uint32_t stored = 0;
  read_field(&stored, kFooterBytes, "checksum of the payload");
  if (stored != masked(payload_crc_))
    fail(fmt::format("checksum of the payload: expected {:#x}, found {:#x}", masked(payload_crc_),
                     stored),
         kDamaged);
  offset_ = position_;
  ++record_;
}

bool TfRecordReader::next(std::string& payload) {
  const std::int64_t length = begin();
  if (length < 0) return false;
  payload.resize(static_cast<std::size_t>(length));
  read(payload.data(), length);
  end();
  return true;
}

bool TfRecordReader::skip() {
  const std::int64_t length = peek_length();
  if (length < 0) return false;
  peeked_.reset();
  std::array<char, 16384> unread{};
  const std::int64_t end = position_ + length;
  if (gz_ == nullptr) position_ = end;
  while (position_ < end)
    read_field(unread.data(), std::min<std::int64_t>(end - position_, unread.size()), "payload");
  read_field(unread.data(), kFooterBytes, "checksum of the payload");
  offset_ = position_;
  ++record_;
  return true;
}

void TfRecordReader::seek(std::int64_t offset, std::int64_t record) {
  const bool there = offset == offset_ && (peeked_ || position_ == offset_);
  offset_ = offset;
  record_ = record;
  if (there) return;
  peeked_.reset();
  position_ = offset;
  if (gz_ != nullptr && gzseek(gz_, offset, SEEK_SET) != offset)
    fail("cannot seek in the gzip stream", kDamaged);
}

TfRecordWriter::TfRecordWriter(std::filesystem::path path, Compression compression)
    : file_(std::move(path)) {
  errno = 0;
  // "T" is zlib's own uncompressed mode, so one path serves both kinds of file.
  stream_ =
      gzopen(file_.temporary_path().c_str(), compression == Compression::kGzip ? "wbe" : "wbeT");
  if (stream_ == nullptr) fail("create", errno);
}

TfRecordWriter::~TfRecordWriter() {
  if (stream_ != nullptr) gzclose(stream_);
}

void TfRecordWriter::fail(const std::string& action, int error_number) const {
  throw Error(fmt::format("cannot {} {}: {} (after {} bytes of records)", action,
                          file_.path().c_str(), std::strerror(error_number), written_bytes_),
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
  require(stream_ != nullptr, text("{}: written to after it was committed", file_.path().c_str()));
  const std::uint64_t length = payload.size();
  const std::uint32_t length_crc = masked_crc32c(std::as_bytes(std::span(&length, 1)));
  const std::uint32_t payload_crc = masked_crc32c(std::as_bytes(std::span(payload)));
  put(&length, sizeof length);
  put(&length_crc, sizeof length_crc);
  put(payload.data(), payload.size());
  put(&payload_crc, sizeof payload_crc);
}

void TfRecordWriter::commit() {
  require(stream_ != nullptr, text("{}: committed twice", file_.path().c_str()));
  errno = 0;
  const int closed = gzclose(stream_);
  stream_ = nullptr;
  if (closed != Z_OK) fail("write", errno);
  file_.commit();
}

}  // namespace halomesh
