// SPDX-License-Identifier: Apache-2.0
// A split in TFRecord files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/data/dataset_files.hpp"
#include "runtime/data/sample_index.hpp"

namespace halomesh {

/// A split of TFRecord files. Each record is one sample, a tf.train.Example as in the CosmoFlow
/// benchmark: x, and y or labels. Voxels are counts in a byte string or, of a field, a list.
class TfRecordDataset final : public Dataset {
 public:
  /// Collective over `comm`. Rank i % size scans file i for its records; it reads only a small part
  /// of plain files and of gzip files with one record. Rank 0 checks the format of sample 0. Throws
  /// one Error on every rank if a file is truncated, or has another format or sample size.
  TfRecordDataset(const Comm& comm, DatasetFiles files, const Shape& shape,
                  const TargetSpec& targets, const SampleFormat& values);

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
  /// True if voxels are a list of numbers, not a byte string of counts.
  bool is_field() const { return format().kind() == SampleFormat::Kind::kField; }
  /// The kind of the labels; only if has_labels().
  const SampleFormat& label_format() const { return *label_format_; }
  /// The bounds of the length of a record: numbers of lists have 1 to 10 bytes each.
  std::int64_t least_payload() const;
  std::int64_t largest_payload() const;

 private:
  std::vector<std::int64_t> scan(std::int64_t file) const;
  void set_records(FileScan& scanned);
  void check_first() const;

  DatasetFiles files_;
  std::optional<SampleFormat> label_format_;
  std::string identity_;
  SampleIndex index_;
  std::vector<std::int64_t> record_offset_;  // by sample; empty: one per file
  std::int64_t slow_file_ = -1;
  bool first_is_gzip_ = false;
};

}  // namespace halomesh
