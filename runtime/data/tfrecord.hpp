// SPDX-License-Identifier: Apache-2.0
// Reads and writes TFRecord files, plain or gzip.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/descriptor.hpp"

namespace halomesh {

enum class Compression { kNone, kGzip };

/// Bytes that TFRecord framing adds to each payload: u64 length, its masked CRC-32C, the payload,
/// its masked CRC-32C (TensorFlow, "TFRecords format details"). All little-endian.
inline constexpr std::int64_t kTfRecordFramingBytes = 16;

/// Writes one TFRecord file. The file gets its name only in commit(): until then the bytes are in
/// `.NAME.partial` beside it, which the destructor removes without a commit(), so that a partial
/// file never replaces a whole one. Two writers must not write to the same path.
/// Every function throws Error naming the file and the bytes written so far.
class TfRecordWriter {
 public:
  TfRecordWriter(std::filesystem::path path, Compression compression);
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;
  ~TfRecordWriter();

  void write(std::string_view payload);
  /// Flushes to the disk (fsync) and renames; nothing can be written afterwards.
  void commit();

 private:
  void put(const void* bytes, std::size_t count);
  [[noreturn]] void fail(const std::string& action, int error_number) const;

  AtomicFile file_;
  gzFile stream_ = nullptr;
  std::int64_t written_bytes_ = 0;
};

/// Reads one file after another; buffers and descriptors live as long as the reader. The first
/// bytes of a file, never its name, tell whether it is plain or gzip. Both checksums are checked.
/// Every Error names the file, the record and its offset. Bytes after the last gzip member are
/// ignored, as by gzip. For one thread at a time.
class TfRecordReader {
 public:
  /// Rejects a record whose payload is longer than `max_payload_bytes` before allocating memory for
  /// it. Reads `gzip_bytes` of a gzip file at a time.
  explicit TfRecordReader(std::int64_t max_payload_bytes, std::int64_t gzip_bytes = 256 * 1024);
  TfRecordReader(const TfRecordReader&) = delete;
  TfRecordReader& operator=(const TfRecordReader&) = delete;
  ~TfRecordReader();

  /// Opens `path` at its first record and closes the previous file. `opened` is a descriptor of the
  /// file, if it is already open.
  void open(std::string_view path, Descriptor opened = {});
  void close();

  /// Begins the next record and returns the length of its payload, or -1 at the end of the file.
  std::int64_t begin();
  /// Reads up to `count` more bytes of the payload and returns how many: 0 at its end.
  std::int64_t read(void* dst, std::int64_t count);
  /// Skips up to `count` more bytes of the payload, in plain files without reading them, and
  /// returns how many. end() must not be called after it, because the checksum is then unknown.
  std::int64_t step_over(std::int64_t count);
  /// Reads the rest of the payload and checks its checksum.
  void end();
  /// Reads the next record into `payload`, reusing its memory; false at the end of the file.
  bool next(std::string& payload);
  /// Skips the next record, checking its length but not its payload; false at the end.
  bool skip();
  /// The payload length of the next record, without starting to read it; -1 at the end.
  std::int64_t peek_length();
  /// True if the file has exactly one record. Reads only a few bytes: decides by the file's size or
  /// by gzip's ISIZE (RFC 1952, 2.3.1), which covers only the last member of several, so check
  /// at_end() after reading the record. Call it after open().
  bool holds_one_record();
  /// True if no byte follows; for gzip this also checks the checksum of the stream.
  bool at_end() { return peek_length() < 0; }

  /// Moves to record number `record`, whose framing starts at byte `offset` of the uncompressed
  /// file. Free for plain files; gzip files are decompressed up to there.
  void seek(std::int64_t offset, std::int64_t record);
  std::int64_t offset() const { return offset_; }
  std::int64_t record() const { return record_; }
  bool is_gzip() const { return gz_ != nullptr; }
  const std::string& path() const { return path_; }

 private:
  std::int64_t read_header();
  std::int64_t read_some(void* dst, std::int64_t count);
  void read_field(void* dst, std::int64_t count, const char* field);
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const;

  std::int64_t max_payload_bytes_, gzip_bytes_;
  std::string path_;
  Descriptor file_;
  gzFile gz_ = nullptr;
  std::int64_t file_bytes_ = 0;
  std::int64_t offset_ = 0, record_ = 0;  // the next record's
  std::int64_t position_ = 0;             // the next byte to be read
  std::int64_t compressed_offset_ = 0;    // the end of the consumed part of a gzip file
  std::optional<std::int64_t> peeked_;    // length of the next record, whose header has been read
  std::int64_t payload_left_ = 0;         // bytes left of the current record
  std::uint32_t payload_crc_ = 0;         // the checksum of its bytes read so far
};

}  // namespace halomesh
