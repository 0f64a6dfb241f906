// SPDX-License-Identifier: Apache-2.0
// Writes the files of an archive, whole or not at all. hdf5_dataset.hpp reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/archive_name.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/sample_format.hpp"
#include "runtime/hdf5/hdf5_file.hpp"
#include "shape.hpp"

namespace halomesh {

/// The default gzip level of archives.
inline constexpr int kDefaultGzip = 4;
/// Stands in for a level where an earlier version has used another HDF5 filter. Such files are
/// never written; the HDF5 library reads them if it has the filter's plugin.
inline constexpr int kOtherFilter = -1;

/// The attributes of one archive file.
struct ArchiveFile {
  std::int64_t samples = 0;        ///< in this file
  std::int64_t first_sample = 0;   ///< the number of its first sample in the split
  std::int64_t split_samples = 0;  ///< in all files of the split
  Shape shape;                     ///< the shape of a sample
  std::int64_t targets = 0;        ///< scalars per sample; 0: labels
  int gzip = kDefaultGzip;         ///< level 1..9 after a byte shuffle; 0: not compressed
  std::string source;              ///< content_of() the converted data
  SampleFormat::Kind values = SampleFormat::Kind::kCounts;  ///< or kField: fp32
  std::int64_t classes = 0;                                 ///< for labels; 0: scalars
  std::vector<Orientation> orientations = {};               ///< by sample, or empty
  std::vector<std::string> names = {};                      ///< by sample, or empty
  friend bool operator==(const ArchiveFile&, const ArchiveFile&) = default;
};

/// Writes one file with these datasets:
/// - x (n,D,H,W,C) int16 or float32 in chunks of up to 8x8x64 voxels, so that a halo adds few
///   chunks in any cut, and crc32c (n) uint32 of each sample's voxels;
/// - y (n,T) float32, or labels (n,D,H,W) uint8 and their crc32c_labels;
/// - affine (n,3,4) float64 where known, with qform (n,3,4) and form_codes (n,2) int32, an
///   Orientation.
/// Each chunk has a Fletcher-32 checksum. Equal content gives equal bytes. The file gets its name
/// only in commit(). Every function throws Error naming the file.
class ArchiveWriter {
 public:
  ArchiveWriter(const std::filesystem::path& path, ArchiveFile content);
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;
  ~ArchiveWriter();

  /// Adds the next sample: values of the content's kind, in the order d,h,w,c, with its scalars.
  void write(std::span<const std::byte> values, std::span<const float> targets);
  void write(std::span<const std::int16_t> counts, std::span<const float> targets) {
    write(std::as_bytes(counts), targets);
  }
  /// Adds the next sample with a label for each voxel.
  void write(std::span<const std::byte> values, std::span<const std::uint8_t> labels);
  /// Flushes, fsyncs and renames the file; all samples must have been written.
  void commit();

 private:
  struct Open;
  void write_voxels(std::span<const std::byte> values);
  ArchiveFile content_;
  std::int64_t written_ = 0;
  std::unique_ptr<Open> open_;
};

/// Reads the attributes of a file except its orientations. Throws Error if it is not part of an
/// archive.
ArchiveFile read_archive_attributes(const Hdf5File& file);
/// The ArchiveFile::orientations of a file of so many samples; empty if it has none.
std::vector<Orientation> read_orientations(Hdf5File& file, std::int64_t samples);

/// The attributes and affines of the file `path`; empty if there is no such file.
std::optional<ArchiveFile> find_archive_file(const std::filesystem::path& path);

}  // namespace halomesh
