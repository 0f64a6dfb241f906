// SPDX-License-Identifier: Apache-2.0
// Determines the format of a split: see open_dataset.hpp. Formats are recognised by file names,
// HDF5 files also by the datasets in the first one.
#include "runtime/data/open_dataset.hpp"

#include <algorithm>
#include <cstring>
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

constexpr const char* kStats = "stats.h5";  // of a climate data set

enum class Format : char { kTfRecord, kArchive, kLabelArchive, kSample, kUniverse, kClimate };

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

bool is_hdf5(const std::string& name) {
  return (name.ends_with(".h5") || name.ends_with(".hdf5")) && name != kStats;
}

/// Whether HDF5 files hold samples or universes: the first file decides, each file is checked
/// later.
Format hdf5_format(const fs::path& first) {
  const Hdf5File file = Hdf5File::open(first);
  for (const auto& [format, kind] :
       {std::pair{Format::kSample, kSampleKind}, {Format::kUniverse, kUniverseKind}})
    if (file.contains(kind.voxels.name) && file.contains(kind.targets)) return format;
  if (file.contains(kClimateKind.voxels.name)) return Format::kClimate;
  throw Error(fmt::format("{} has neither datasets x and y, nor full and unitPar, nor climate/data",
                          first.c_str()),
              "keep only the files of the CosmoFlow or the DeepCAM benchmark in the directory");
}

/// The ranges of the channels of a climate data set, which its training split has given.
std::vector<ChannelRange> ranges_in(const fs::path& directory) {
  const fs::path path = directory / kStats;
  std::error_code ignored;
  require(fs::exists(path, ignored), text("{} is missing", path.c_str()),
          "it holds the ranges of the channels, climate/minval and climate/maxval: copy it from "
          "the data set");
  Hdf5File file = Hdf5File::open(path);
  const auto read = [&](const char* name) {
    require(file.contains(name), text("{} has no dataset {}", path.c_str(), name),
            "copy it again from the data set");
    const Extents extents = file.extents(name);
    require(extents.size() == 1, text("{}: {} has {} axes", path.c_str(), name, extents.size()),
            "there must be one number for each channel");
    std::vector<float> values(static_cast<std::size_t>(extents.front()));
    if (file.holds(name, Hdf5Type::kDouble)) {
      std::vector<double> wide(values.size());
      file.read<double>(name, Slab::whole(extents), wide);
      std::transform(wide.begin(), wide.end(), values.begin(),
                     [](double x) { return static_cast<float>(x); });
    } else {
      file.read<float>(name, Slab::whole(extents), values);
    }
    return values;
  };
  const std::vector<float> least = read("climate/minval"), most = read("climate/maxval");
  require(least.size() == most.size(),
          text("{}: {} minima and {} maxima", path.c_str(), least.size(), most.size()),
          "copy it again from the data set");
  std::vector<ChannelRange> ranges;
  for (std::size_t c = 0; c < least.size(); ++c) ranges.push_back({least[c], most[c]});
  return ranges;
}

/// The files of a split and what they hold.
struct Found {
  Format format = Format::kTfRecord;
  SampleFormat values;
  std::string names;  ///< sorted, each ending in '\0'
};

/// What the first file of a format shows of the values.
void look_inside(Found& found, const fs::path& directory, const fs::path& first) {
  if (found.format == Format::kClimate) {
    found.values = SampleFormat::field(ranges_in(directory));
  } else if (found.format == Format::kArchive) {
    const ArchiveFile content = read_archive_attributes(Hdf5File::open(first));
    if (content.classes > 0) found.format = Format::kLabelArchive;
    if (content.values == SampleFormat::Kind::kField) found.values = SampleFormat::field();
  }
}

std::string to_text(const Found& found) {
  const std::vector<ChannelRange>& ranges = found.values.ranges();
  std::string text(1, static_cast<char>(found.format));
  text.push_back(static_cast<char>(found.values.kind()));
  text += fmt::format("{} ", ranges.size());
  text.append(reinterpret_cast<const char*>(ranges.data()),  // NOLINT: bytes
              ranges.size() * sizeof(ChannelRange));
  return text + found.names;
}

Found found_in(const std::string& text) {
  Found found;
  found.format = static_cast<Format>(text[0]);
  std::size_t at = text.find(' ', 2);
  std::vector<ChannelRange> ranges(std::stoul(text.substr(2, at - 2)));
  const std::size_t bytes = ranges.size() * sizeof(ChannelRange);
  ++at;
  if (bytes > 0) std::memcpy(ranges.data(), text.data() + at, bytes);
  if (static_cast<SampleFormat::Kind>(text[1]) == SampleFormat::Kind::kField)
    found.values = SampleFormat::field(std::move(ranges));
  found.names = text.substr(at + bytes);
  return found;
}

Found find_files(const fs::path& directory, const std::string& split) {
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
  Found result;
  const fs::path first = (archive.empty() ? of_split : directory) / found.front();
  result.format = !archive.empty()   ? Format::kArchive
                  : !records.empty() ? Format::kTfRecord
                                     : hdf5_format(first);
  look_inside(result, directory, first);
  for (const std::string& name : found) result.names.append(name).push_back('\0');
  return result;
}

/// Throws Error unless the format has targets as wanted, with ranges for all channels.
void check(const Found& found, const fs::path& directory, const Shape& shape,
           const TargetSpec& targets) {
  const bool has_labels = found.format == Format::kClimate || found.format == Format::kLabelArchive;
  require(has_labels || targets.classes == 0,
          text("{} holds samples without labels, the network is trained for {} classes of voxels",
               directory.c_str(), targets.classes),
          "use data with labels, or a network for regression");
  require(!has_labels || targets.classes > 0,
          text("{} holds samples with labels, the network is trained for {} targets",
               directory.c_str(), targets.scalars),
          "use data with such targets, or a network for segmentation");
  const std::vector<ChannelRange>& ranges = found.values.ranges();
  require(ranges.empty() || std::ssize(ranges) == shape.c,
          text("{}/{} has ranges of {} channels, samples are {}", directory.c_str(), kStats,
               ranges.size(), shape),
          text("try --input {}x{}x{}x{}", shape.d, shape.h, shape.w, ranges.size()));
}

}  // namespace

std::unique_ptr<const Dataset> open_dataset(const Comm& comm, const fs::path& directory,
                                            const std::string& split, const Shape& shape,
                                            const TargetSpec& targets) {
  const Found found = found_in(on_first_rank(comm, [&] {
    Found made = find_files(directory, split);
    check(made, directory, shape, targets);
    return to_text(made);
  }));
  const bool is_archive = found.format == Format::kArchive || found.format == Format::kLabelArchive;
  DatasetFiles files(is_archive ? directory : directory / split, found.names);
  const auto hdf5 = [&](const Hdf5Kind& kind) {
    return std::make_unique<Hdf5Dataset>(comm, std::move(files), kind, shape, targets,
                                         found.values);
  };
  switch (found.format) {
    case Format::kArchive:
      return hdf5(kArchiveKind);
    case Format::kLabelArchive:
      return hdf5(kLabelArchiveKind);
    case Format::kClimate:
      return hdf5(kClimateKind);
    case Format::kSample:
      return hdf5(kSampleKind);
    case Format::kUniverse:
      return hdf5(kUniverseKind);
    case Format::kTfRecord:
      break;
  }
  return std::make_unique<TfRecordDataset>(comm, std::move(files), shape, targets.scalars);
}

TargetSpec targets_of(const Loss& loss, const Shape& output) {
  return loss.target_type() == DataType::kUint8 ? TargetSpec::labels(output.c)
                                                : TargetSpec(loss.target_shape().c);
}

}  // namespace halomesh
