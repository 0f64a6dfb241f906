// SPDX-License-Identifier: Apache-2.0
// A split in TFRecord files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/data/dataset_files.hpp"
#include "runtime/data/sample_index.hpp"

namespace halomesh {

/// A split of TFRecord files. Each record is one sample, a tf.train.Example as in the CosmoFlow
/// benchmark.
class TfRecordDataset final : public Dataset {
 public:
  /// Collective over `comm`. Rank i % size scans file i for its records; it reads only a small part
  /// of plain files and of gzip files with one record. Rank 0 checks the format of sample 0. Throws
  /// one Error on every rank if a file is truncated, or has another format or sample size.
  TfRecordDataset(const Comm& comm, DatasetFiles files, const Shape& shape,
                  const TargetSpec& targets);

  std::int64_t size() const override { return index_.size(); }
  const std::filesystem::path& directory() const override { return files_.directory(); }
  const std::string& identity() const override { return identity_; }
  /// Names the first gzip file with many records: random access decompresses it from its start each
  /// time.
  std::string name(std::int64_t sample) const override;
  std::string advice() const override;
  std::unique_ptr<SampleReader> reader() const override;

  const DatasetFiles& files() const override { return files_; }
  /// Covers the checksums of all records, or that of a gzip file.
  std::uint64_t file_hash(std::int64_t file) const override;
  /// The place of a sample.
  struct Place {
    std::int64_t file = 0, record = 0;  // the record's number within the file
    // The offset of the record's framing, in the uncompressed file.
    std::int64_t offset = 0;
  };
  Place place(std::int64_t sample) const;
  bool one_record_per_file() const { return index_.one_per_file(); }

 private:
  std::vector<std::int64_t> scan(std::int64_t file) const;
  void set_records(FileScan& scanned);
  void check_first() const;

  DatasetFiles files_;
  std::string identity_;
  SampleIndex index_;
  std::vector<std::int64_t> record_offset_;  // by sample; empty: one per file
  std::int64_t slow_file_ = -1;
  bool first_is_gzip_ = false;
};

}  // namespace halomesh
