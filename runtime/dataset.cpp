// Which format a split is in.
// Knows formats by the names of their files; nothing of how samples lie in them.
#include "runtime/dataset.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "error.hpp"
#include "runtime/archive.hpp"
#include "runtime/dataset_files.hpp"
#include "runtime/hdf5_dataset.hpp"
#include "runtime/tfrecord_dataset.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr char kTfRecord = 't', kArchive = 'a', kSample = 's', kUniverse = 'u';

/// The names in a directory, hidden ones and directories aside; none where there is no directory.
Names names_in(const fs::path& directory, const std::string& cure) {
  Names names;
  std::error_code code;
  if (!fs::is_directory(directory, code)) return names;
  fs::directory_iterator entry(directory, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.front() != '.' && !entry->is_directory(ignored)) names.push_back(std::move(name));
  }
  require(!code, cat("cannot list ", directory.string(), ": ", code.message()), cure);
  return names;
}

template <class Is>
Names those_that(const Names& names, const Is& is) {
  Names found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found), is);
  return found;
}

bool is_hdf5(const std::string& name) { return name.ends_with(".h5") || name.ends_with(".hdf5"); }

/// Whether HDF5 files of one sample or of one universe: the first decides, each is checked later.
char hdf5_format(const fs::path& first) {
  const Hdf5File file = Hdf5File::open(first);
  for (const auto& [format, kind] : {std::pair{kSample, kSampleKind}, {kUniverse, kUniverseKind}})
    if (file.contains(kind.voxels) && file.contains(kind.targets)) return format;
  throw Error(cat(first.string(), " has neither datasets x and y nor full and unitPar"),
              "keep only the CosmoFlow benchmark's files in the directory");
}

/// One letter for the format, then the names of its files, sorted, each ending in '\0'.
std::string find_files(const fs::path& directory, const std::string& split) {
  const fs::path of_split = directory / split;
  const std::string cure = cat("--data DIR must hold ", split,
                               "/ with *.tfrecord or *.hdf5 files, "
                               "or an archive's ",
                               split, "-NNNNN.h5; `halomesh synth` makes such a data set");
  const Names all = names_in(of_split, cure);
  const Names archive = those_that(names_in(directory, cure), [&](const std::string& name) {
    return is_archive_name(name, split);
  });
  const Names records = those_that(
      all, [](const std::string& name) { return name.find(".tfrecord") != std::string::npos; });
  const Names hdf5 = those_that(all, is_hdf5);
  std::error_code ignored;
  require(!archive.empty() || fs::is_directory(of_split, ignored),
          cat(of_split.string(), " is not a directory"), cure);
  Names found;
  for (const Names* names : {&archive, &records, &hdf5}) {
    if (names->empty()) continue;
    require(found.empty(),
            cat(directory.string(), " holds samples in two formats, such as ",
                found.empty() ? "" : found.front(), " and ", names->front()),
            cat("keep one of them for the split ", split));
    found = *names;
  }
  require(
      !found.empty(),
      cat(of_split.string(), " holds no *.tfrecord or *.hdf5 file (and ", all.size(), " others)"),
      cure);
  // By length first: archives' numbers may grow beyond five digits.
  std::sort(found.begin(), found.end(), [&](const std::string& a, const std::string& b) {
    return archive.empty() || a.size() == b.size() ? a < b : a.size() < b.size();
  });
  std::string listed(1, !archive.empty()   ? kArchive
                        : !records.empty() ? kTfRecord
                                           : hdf5_format(of_split / found.front()));
  for (const std::string& name : found) listed.append(name).push_back('\0');
  return listed;
}

}  // namespace

void SampleReader::read_layers(std::int64_t sample, const Box& box, const LayerSink& sink,
                               std::span<float> targets) {
  const std::vector<Box> all = layers(box);
  if (all.empty()) {
    read(sample, {}, targets);
    return;
  }
  AlignedBuffer<std::int16_t> counts(all.front().volume());
  for (const Box& layer : all) {
    const TensorView<std::int16_t> view{counts.data(), layer, 1};
    read(sample, view, layer == all.front() ? targets : std::span<float>());
    sink(view);
  }
}

void SampleReader::stream(std::int64_t sample, const VoxelSink& /*sink*/,
                          std::span<float> /*targets*/) {
  throw Error(cat("sample ", sample, " is in no file: there is nothing to be staged"));
}

std::unique_ptr<const Dataset> Dataset::open(const Comm& comm, const fs::path& directory,
                                             const std::string& split, const Shape& shape,
                                             std::int64_t targets) {
  const std::string listed = on_first_rank(comm, [&] { return find_files(directory, split); });
  const char format = listed.front();
  DatasetFiles files(format == kArchive ? directory : directory / split, listed.substr(1));
  if (format == kTfRecord)
    return std::make_unique<TfRecordDataset>(comm, std::move(files), shape, targets);
  const Hdf5Kind& kind = format == kArchive  ? kArchiveKind
                         : format == kSample ? kSampleKind
                                             : kUniverseKind;
  return std::make_unique<Hdf5Dataset>(comm, std::move(files), kind, shape, targets);
}

}  // namespace halomesh
