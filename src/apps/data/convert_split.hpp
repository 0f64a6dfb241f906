// SPDX-License-Identifier: Apache-2.0
// Converts one split to an archive, divided over the ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "partition/window.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// How an archive is written.
struct ArchiveOptions {
  std::filesystem::path directory;
  std::int64_t samples_per_file = 64;
  int gzip = kDefaultGzip;  ///< level; 0: not compressed
};

/// Bytes of a sample's values.
inline std::int64_t sample_bytes(const Dataset& data, std::int64_t sample) {
  return data.shape_of(sample).volume() * size_of(data.format().type());
}

/// Called after each sample of this rank; throws to stop the conversion.
using SampleTick = std::function<void()>;

/// Converts one split. All functions are collective over the given communicator and throw the same
/// Error on every rank.
class SplitConversion {
 public:
  /// Samples of different extents need a file each. Complete files of an earlier conversion are
  /// kept. Throws Error if a file of the split comes from another source, was written with other
  /// options or is no archive. `comm` and `source` must outlive this object.
  SplitConversion(const Comm& comm, const Dataset& source, std::string split,
                  ArchiveOptions options);

  std::int64_t samples() const { return source_.size(); }
  std::int64_t samples_kept() const;
  std::int64_t files() const;
  /// Bytes of the missing files without compression.
  std::int64_t bytes_missing() const;

  /// Writes the missing files, distributed cyclically over the ranks.
  void run(const SampleTick& tick) const;

 private:
  Range samples_of(std::int64_t file) const;
  ArchiveFile content(std::int64_t file) const;
  std::filesystem::path path(std::int64_t file) const;
  void check_no_others() const;
  void write_file(std::int64_t file, SampleReader& reader, const SampleTick& tick,
                  const std::function<bool()>& others_failed) const;

  const Comm& comm_;
  const Dataset& source_;
  std::string split_;
  ArchiveOptions options_;
  std::string content_;                // the content of the source
  std::vector<std::int64_t> missing_;  // indices of files
};

/// Reads every sample of an archive and compares it with its checksums and, unless `source` is
/// null, with the source's sample. Samples are divided over the ranks.
void verify_archive(const Comm& comm, const Dataset& archive, const Dataset* source,
                    const SampleTick& tick);

}  // namespace halomesh
