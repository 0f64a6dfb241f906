// One split on its way into an archive: which files it makes, which are there, who makes which.
// Knows nothing of formats or of the command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/archive.hpp"
#include "runtime/dataset.hpp"
#include "runtime/mpi.hpp"

namespace halomesh {

/// How an archive is written.
struct ArchiveOptions {
  std::filesystem::path directory;
  std::int64_t samples_per_file = 64;
  int gzip = kDefaultGzip;           ///< level; 0: not compressed
  std::optional<Hdf5Filter> filter;  ///< instead of gzip
};

/// Told of each sample that this rank is done with; throws to stop the work.
using SampleTick = std::function<void()>;

/// All functions are collective over the communicator given, and throw the same Error on every
/// rank.
class SplitConversion {
 public:
  /// Finds out which files are there already, whole: those are kept. Throws Error when a file of
  /// the split is from another source, was written with other options or is none of an archive.
  /// `comm` and `source` must outlive this object.
  SplitConversion(const Comm& comm, const Dataset& source, std::string split,
                  ArchiveOptions options);

  std::int64_t samples() const { return source_.size(); }
  std::int64_t samples_kept() const;
  std::int64_t files() const;
  /// Most bytes that the files which are missing will take, but for what compression saves.
  std::int64_t bytes_missing() const;

  /// Writes the files that are missing, rank by rank in turn, each as a whole by one rank.
  void run(const SampleTick& tick) const;

 private:
  ArchiveFile content(std::int64_t file) const;
  std::filesystem::path path(std::int64_t file) const;
  void check_no_others() const;
  void write_file(std::int64_t file, SampleReader& reader, const SampleTick& tick,
                  const std::function<bool()>& others_failed) const;

  const Comm& comm_;
  const Dataset& source_;
  std::string split_;
  ArchiveOptions options_;
  std::vector<std::int64_t> missing_;  // files
};

/// Reads every sample of an archive against its checksums, and against the same sample of `source`
/// unless that is null. Samples are divided over the ranks.
void verify_archive(const Comm& comm, const Dataset& archive, const Dataset* source,
                    const SampleTick& tick);

}  // namespace halomesh
