// A split in TFRecord files: the index of its records and the reading of blocks of them.
// Knows nothing of how the files were found or of the order in which samples are used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/dataset.hpp"
#include "runtime/dataset_files.hpp"
#include "runtime/sample_index.hpp"

namespace halomesh {

/// One sample is one record, a tf.train.Example of the CosmoFlow benchmark.
class TfRecordDataset final : public Dataset {
 public:
  /// Collective over `comm`. File i is scanned for its records by rank i % size: of a plain file,
  /// or a gzip file of one record, little is read. Rank 0 looks at what lies around the voxels of
  /// sample 0, which is read whole where it is compressed. Throws the same Error on every rank when
  /// a file is truncated, of another format or of another sample size.
  TfRecordDataset(const Comm& comm, DatasetFiles files, const Shape& shape, std::int64_t targets);

  std::int64_t size() const override { return index_.size(); }
  const std::filesystem::path& directory() const override { return files_.directory(); }
  const std::string& identity() const override { return identity_; }
  /// Names the first gzip file of many records: reading its samples in a random order decompresses
  /// it from its start again and again.
  std::string advice() const override;
  /// A reader that holds a small piece of one record at a time.
  std::unique_ptr<SampleReader> reader() const override;

  const DatasetFiles& files() const { return files_; }
  /// Where a sample is stored.
  struct Place {
    std::int64_t file = 0, record = 0;  // record within the file
    std::int64_t offset = 0;            // of the record's framing, in the uncompressed file
  };
  Place place(std::int64_t sample) const;
  bool one_record_a_file() const { return index_.one_a_file(); }

 private:
  std::vector<std::int64_t> scan(std::int64_t file) const;
  void set_records(FileScan& scanned);
  void check_first() const;

  DatasetFiles files_;
  std::string identity_;
  SampleIndex index_;
  std::vector<std::int64_t> record_offset_;  // of each sample; empty: one a file
  std::int64_t slow_file_ = -1;
  bool first_is_gzip_ = false;
};

}  // namespace halomesh
