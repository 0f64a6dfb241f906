// SPDX-License-Identifier: Apache-2.0
// Determines the format of a split: see open_dataset.hpp. Formats are recognised by file names,
// HDF5 files also by the datasets in the first one.
#include "runtime/data/open_dataset.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "error.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/data/dataset_files.hpp"
#include "runtime/data/hdf5_dataset.hpp"
#include "runtime/data/tfrecord_dataset.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

enum class Format : char { kTfRecord, kArchive, kSample, kUniverse };

/// The names in a directory, without hidden ones; none if there is no directory. Includes
/// directories: one that is named like a file of samples is rejected when it is opened.
Names names_in(const fs::path& directory, const std::string& hint) {
  Names names;
  std::error_code code;
  if (!fs::is_directory(directory, code)) return names;
  fs::directory_iterator entry(directory, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::string name = entry->path().filename().string();
    if (name.front() != '.') names.push_back(std::move(name));
  }
  require(!code, text("cannot list {}: {}", directory.c_str(), code.message()), hint);
  return names;
}

template <class Is>
Names those_that(const Names& names, const Is& is) {
  Names found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found), is);
  return found;
}

bool is_hdf5(const std::string& name) { return name.ends_with(".h5") || name.ends_with(".hdf5"); }

/// Whether HDF5 files hold samples or universes: the first file decides, each file is checked
/// later.
Format hdf5_format(const fs::path& first) {
  const Hdf5File file = Hdf5File::open(first);
  for (const auto& [format, kind] :
       {std::pair{Format::kSample, kSampleKind}, {Format::kUniverse, kUniverseKind}})
    if (file.contains(kind.voxels) && file.contains(kind.targets)) return format;
  throw Error(fmt::format("{} has neither datasets x and y nor full and unitPar", first.c_str()),
              "keep only the CosmoFlow benchmark's files in the directory");
}

/// A character for the format, then the names of its files, sorted, each ending in '\0'.
std::string find_files(const fs::path& directory, const std::string& split) {
  const fs::path of_split = directory / split;
  const std::string hint = fmt::format(
      "--data DIR must hold {}/ with *.tfrecord or *.hdf5 files, or an archive's {}-NNNNN.h5; "
      "`halomesh synth` makes such a data set",
      split, split);
  const Names all = names_in(of_split, hint);
  const Names archive = those_that(names_in(directory, hint), [&](const std::string& name) {
    return is_archive_name(name, split);
  });
  const Names records = those_that(
      all, [](const std::string& name) { return name.find(".tfrecord") != std::string::npos; });
  const Names hdf5 = those_that(all, is_hdf5);
  std::error_code ignored;
  require(!archive.empty() || fs::is_directory(of_split, ignored),
          text("{} is not a directory", of_split.c_str()), hint);
  Names found;
  for (const Names* names : {&archive, &records, &hdf5}) {
    if (names->empty()) continue;
    require(found.empty(),
            text("{} holds samples in two formats, such as {} and {}", directory.c_str(),
                 found.empty() ? "" : found.front(), names->front()),
            text("keep one of them for the split {}", split));
    found = *names;
  }
  require(
      !found.empty(),
      text("{} holds no *.tfrecord or *.hdf5 file (and {} others)", of_split.c_str(), all.size()),
      hint);
  // By length first: archives' numbers may grow beyond five digits.
  std::sort(found.begin(), found.end(), [&](const std::string& a, const std::string& b) {
    return archive.empty() || a.size() == b.size() ? a < b : a.size() < b.size();
  });
  const Format format = !archive.empty()   ? Format::kArchive
                        : !records.empty() ? Format::kTfRecord
                                           : hdf5_format(of_split / found.front());
  std::string listed(1, static_cast<char>(format));
  for (const std::string& name : found) listed.append(name).push_back('\0');
  return listed;
}

}  // namespace

std::unique_ptr<const Dataset> open_dataset(const Comm& comm, const fs::path& directory,
                                            const std::string& split, const Shape& shape,
                                            std::int64_t targets) {
  const std::string listed = on_first_rank(comm, [&] { return find_files(directory, split); });
  const auto format = static_cast<Format>(listed.front());
  DatasetFiles files(format == Format::kArchive ? directory : directory / split, listed.substr(1));
  const auto hdf5 = [&](const Hdf5Kind& kind) {
    return std::make_unique<Hdf5Dataset>(comm, std::move(files), kind, shape, targets);
  };
  switch (format) {
    case Format::kArchive:
      return hdf5(kArchiveKind);
    case Format::kSample:
      return hdf5(kSampleKind);
    case Format::kUniverse:
      return hdf5(kUniverseKind);
    case Format::kTfRecord:
      break;
  }
  return std::make_unique<TfRecordDataset>(comm, std::move(files), shape, targets);
}

}  // namespace halomesh
