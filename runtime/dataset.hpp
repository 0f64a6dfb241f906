// The samples of one split of a TFRecord data set: their index and their reading.
// Knows nothing of the order in which samples are used, of threads or of the network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "box.hpp"
#include "runtime/mpi.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Reads blocks of samples for one thread, wherever they are stored; no call is collective.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// Writes the block dst.span (global coordinates) of sample number `sample`: its counts where dst
  /// is of int16, their log(1+x) where it is of fp32; and the sample's targets to `targets`. Either
  /// may be empty when it is not wanted. Throws Error naming file, record, value and cure.
  virtual void read(std::int64_t sample, AnyView dst, std::span<float> targets) = 0;
};

/// An indexed list of the samples of one split, identical on every rank; immutable.
class Dataset {
 public:
  /// Collective over `comm`. Lists the files `directory`/`split`/*.tfrecord* (hidden ones aside) on
  /// rank 0, sorted by name; file i is scanned for its records by rank i % size, and sample 0 is
  /// read whole by rank 0. `shape` and `targets` are those of every sample. Throws the same Error
  /// on every rank when the directory is missing or empty, or a file is truncated, of another
  /// format or of another sample size.
  static Dataset open(const Comm& comm, const std::filesystem::path& directory,
                      const std::string& split, const Shape& shape, std::int64_t targets);

  std::int64_t size() const;
  std::int64_t files() const { return static_cast<std::int64_t>(name_end_.size()); }
  const Shape& shape() const { return shape_; }
  std::int64_t targets() const { return targets_; }
  const std::filesystem::path& directory() const { return directory_; }
  /// The first gzip file of many records, "" when there is none: reading its samples in a random
  /// order decompresses it from its start again and again, which users should be told.
  const std::string& slow_file() const { return slow_file_; }

  /// Where a sample is stored.
  struct Place {
    std::int64_t file = 0, record = 0;  // record within the file
    std::int64_t offset = 0;            // of the record's framing, in the uncompressed file
  };
  Place place(std::int64_t sample) const;
  std::string_view name(std::int64_t file) const;
  bool one_record_a_file() const { return first_sample_.empty(); }

  /// A reader that holds a small piece of one record at a time. The data set must outlive it.
  std::unique_ptr<SampleReader> reader() const;

 private:
  Dataset(std::filesystem::path directory, const Shape& shape, std::int64_t targets)
      : directory_(std::move(directory)), shape_(shape), targets_(targets) {}
  std::string list_files(const std::string& split) const;
  void set_names(const std::string& names);
  std::string scan(std::int64_t file) const;
  void set_records(const std::vector<std::string>& scanned);

  std::filesystem::path directory_;  // of the split
  Shape shape_;
  std::int64_t targets_;
  // A split may have 262,144 files: names are kept in one text, records only where files hold many.
  std::string names_;
  std::vector<std::uint32_t> name_end_;
  std::vector<std::int64_t> first_sample_;   // of each file, then the total; empty: one a file
  std::vector<std::int64_t> record_offset_;  // of each sample; empty: one a file
  std::string slow_file_;
};

}  // namespace halomesh
