// SPDX-License-Identifier: Apache-2.0
// A split in HDF5 files of any kind: archives, files of one sample, or universes to be cut.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/data/dataset_files.hpp"
#include "runtime/data/hdf5_kind.hpp"
#include "runtime/data/sample_index.hpp"
#include "runtime/hdf5/hdf5_file.hpp"

namespace halomesh {

/// A split of HDF5 files. One class serves all kinds: a sample is a block of a file's voxels.
class Hdf5Dataset final : public Dataset {
 public:
  /// Collective over `comm`. Rank i % size checks the extents and types in file i. Throws one Error
  /// on every rank if a file is not of `kind`, has other values or another sample size or refers to
  /// missing data, or if files of an archive are missing. Unless targets are scalars, a shape of
  /// spatial extents 0 admits samples of any extents, which may differ only between files.
  Hdf5Dataset(const Comm& comm, DatasetFiles files, Hdf5Kind kind, const Shape& shape,
              const TargetSpec& targets, SampleFormat format = SampleFormat::counts());

  std::int64_t size() const override { return index_.size(); }
  Shape shape_of(std::int64_t sample) const override;
  std::string name(std::int64_t sample) const override;
  std::optional<Orientation> orientation_of(std::int64_t sample) const override;
  const std::filesystem::path& directory() const override { return files_.directory(); }
  const std::string& identity() const override { return identity_; }
  /// The reader reads only the chunks that a block needs. In archives, it verifies the checksum of
  /// every chunk and, if a whole sample is read, the sample's own.
  std::unique_ptr<SampleReader> reader() const override;

  const DatasetFiles& files() const override { return files_; }
  /// Covers targets and the checksums of archives, and files that it refers to.
  std::uint64_t file_hash(std::int64_t file) const override;
  const Hdf5Kind& kind() const { return kind_; }
  /// The kind of the labels; only if has_labels().
  const SampleFormat& label_format() const { return *label_format_; }
  SampleIndex::Place place(std::int64_t sample) const;
  /// The samples in a file; throws Error if their shape or type is wrong.
  struct Content {
    std::int64_t samples = 0;
    Shape shape;    ///< the shape of each
    Hdf5Kind kind;  ///< the data set's, with the axes in this file
  };
  Content content_of(Hdf5File& file) const;

 private:
  std::vector<std::int64_t> scan(std::int64_t file) const;
  std::vector<std::string> require_stored(Hdf5File& file) const;
  void index(FileScan& scanned);
  Hdf5Kind kind_in(Hdf5File& file) const;
  Shape shape_in(Hdf5File& file, const Hdf5Kind& kind) const;
  std::string extents_cure(const Extents& found, const Hdf5Kind& kind) const;
  void check_voxels(Hdf5File& file, const Content& content) const;
  void check_scalars(Hdf5File& file, const Content& content) const;
  void check_labels(Hdf5File& file, const Content& content) const;
  void check_sums(Hdf5File& file, const Hdf5Tensor& tensor, std::int64_t samples) const;

  DatasetFiles files_;
  Hdf5Kind kind_;
  std::optional<SampleFormat> label_format_;
  std::string identity_;
  SampleIndex index_;
  bool any_extents_;
  std::vector<Spatial> extents_;  // extents of the samples in each file, if they may differ
};

}  // namespace halomesh
