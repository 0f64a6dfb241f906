// Files of an archive: written whole or not at all, and known again later.
// Knows nothing of where samples come from, nor of ranks; how they are read is hdf5_dataset.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/hdf5_file.hpp"
#include "shape.hpp"

namespace halomesh {

/// The level of gzip that archives have unless told otherwise.
inline constexpr int kDefaultGzip = 4;

/// What a file of an archive holds and how: what its attributes say.
struct ArchiveFile {
  std::int64_t samples = 0;        ///< their number
  std::int64_t first_sample = 0;   ///< number of the first one in its split
  std::int64_t split_samples = 0;  ///< those of the split, in all its files
  Shape shape;                     ///< of a sample
  std::int64_t targets = 0;
  int gzip = kDefaultGzip;                ///< level 1..9 after a byte shuffle; 0: not compressed
  std::string source;                     ///< what the samples were taken from
  std::optional<Hdf5Filter> filter = {};  ///< after a byte shuffle, instead of gzip
  friend bool operator==(const ArchiveFile&, const ArchiveFile&) = default;
};

/// "train-00017.h5"
std::string archive_name(const std::string& split, std::int64_t file);
/// Whether that could have made this name.
bool is_archive_name(std::string_view name, std::string_view split);

/// Writes one file: x (n,D,H,W,C) int16 in chunks of up to 8x8x64 voxels (a halo's planes cost few
/// further chunks in any cut), y (n,T) float32 and crc32c (n) uint32 of each sample's voxels, each
/// chunk with a Fletcher-32 checksum. The same content makes the same bytes. The file gets its name
/// only in commit(); every function throws Error naming the file.
class ArchiveWriter {
 public:
  ArchiveWriter(const std::filesystem::path& path, ArchiveFile content);
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;
  ~ArchiveWriter();

  /// Adds the next sample: voxels in the order d,h,w,c.
  void write(std::span<const std::int16_t> voxels, std::span<const float> targets);
  /// Writes out, fsyncs and renames, once all samples are there.
  void commit();

 private:
  struct Open;
  ArchiveFile content_;
  std::int64_t written_ = 0;
  std::unique_ptr<Open> open_;
};

/// What an archive's file says that it holds. Throws Error when it is none.
ArchiveFile read_archive_attributes(const Hdf5File& file);

/// What an existing file says that it holds; nothing when there is no file of this name. Throws
/// Error when it is none of an archive's.
std::optional<ArchiveFile> find_archive_file(const std::filesystem::path& path);

}  // namespace halomesh
