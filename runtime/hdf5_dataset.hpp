// A split in HDF5 files of any kind: archives, one sample a file, or universes to be cut.
// Knows nothing of how the files were found or of the order in which samples are used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/dataset.hpp"
#include "runtime/dataset_files.hpp"
#include "runtime/hdf5_file.hpp"
#include "runtime/hdf5_kind.hpp"
#include "runtime/sample_index.hpp"

namespace halomesh {

/// One class for all of them: a sample is a block of a file's voxels.
class Hdf5Dataset final : public Dataset {
 public:
  /// Collective over `comm`. The extents and types in file i are checked by rank i % size. Throws
  /// the same Error on every rank when a file is none of `kind` or of another sample size, and when
  /// some of an archive's files are missing.
  Hdf5Dataset(const Comm& comm, DatasetFiles files, const Hdf5Kind& kind, const Shape& shape,
              std::int64_t targets);

  std::int64_t size() const override { return index_.size(); }
  const std::filesystem::path& directory() const override { return files_.directory(); }
  const std::string& identity() const override { return identity_; }
  /// Reads just the chunks that a block needs. Of archives, a sample that is read whole is checked
  /// against its checksum, and every chunk against its own.
  std::unique_ptr<SampleReader> reader() const override;

  const DatasetFiles& files() const { return files_; }
  const Hdf5Kind& kind() const { return kind_; }
  SampleIndex::Place place(std::int64_t sample) const;
  /// How many samples a file's voxels hold; throws Error when they do not fit.
  std::int64_t samples_in(Hdf5File& file) const;

 private:
  std::vector<std::int64_t> scan(std::int64_t file) const;
  void index(FileScan& scanned);

  DatasetFiles files_;
  Hdf5Kind kind_;
  std::string identity_;
  SampleIndex index_;
};

}  // namespace halomesh
