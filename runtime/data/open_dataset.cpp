// SPDX-License-Identifier: Apache-2.0
// Determines the format of a split: see open_dataset.hpp. Formats are recognised by file names and
// by the content of the first file.
#include "runtime/data/open_dataset.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "error.hpp"
#include "runtime/data/dataset_files.hpp"
#include "runtime/data/dataset_format.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

const std::vector<DatasetFormat>& formats() {
  static const std::vector<DatasetFormat> kAll = Registered<DatasetFormat>::all();
  return kAll;
}

/// The names in a directory, without hidden ones; none if there is no directory. Directories are
/// included: one that is named like a sample file is rejected when it is opened.
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

/// The files of a split and their kind.
struct Found {
  std::size_t format = 0;  ///< the index in formats()
  SampleFormat values;
  std::string names;  ///< sorted, each ending in '\0'
};

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
  found.format = static_cast<unsigned char>(text[0]);
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

/// The files of one directory whose names fit some layouts.
struct Candidates {
  fs::path directory;
  Names names;
  std::vector<std::size_t> formats{};
};

/// The files whose names fit one or several layouts. Throws Error if there are no such files, or if
/// some fit other layouts than the rest.
Candidates candidates_in(const fs::path& directory, const std::string& split) {
  const fs::path of_split = directory / split;
  const std::string hint = fmt::format(
      "--data DIR must hold {}/ with *.tfrecord or *.hdf5 files, or an archive's {}-NNNNN.h5; "
      "`halomesh synth` makes such a data set",
      split, split);
  const Names beside = names_in(directory, hint), within = names_in(of_split, hint);
  Candidates found;
  for (std::size_t f = 0; f < formats().size(); ++f) {
    const DatasetFormat& format = formats()[f];
    Names names;
    for (const std::string& name : format.is_beside_others ? beside : within)
      if (format.has_name(name, split)) names.push_back(name);
    if (names.empty()) continue;
    const fs::path& where = format.is_beside_others ? directory : of_split;
    require(found.names.empty() || (found.names == names && found.directory == where),
            text("{} holds samples in two formats, such as {} and {}", directory.c_str(),
                 found.names.empty() ? "" : found.names.front(), names.front()),
            text("keep one of them for the split {}", split));
    if (found.formats.empty()) found = {where, std::move(names)};
    found.formats.push_back(f);
  }
  std::error_code ignored;
  require(!found.names.empty() || fs::is_directory(of_split, ignored),
          text("{} is not a directory", of_split.c_str()), hint);
  require(!found.names.empty(),
          text("{} holds no *.tfrecord or *.hdf5 file (and {} others)", of_split.c_str(),
               within.size()),
          hint);
  return found;
}

Found find_files(const fs::path& directory, const std::string& split) {
  Candidates candidates = candidates_in(directory, split);
  Names& names = candidates.names;
  const bool numbered = formats()[candidates.formats.front()].is_beside_others;
  // Names are sorted by length first: archives' numbers may grow beyond five digits.
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return !numbered || a.size() == b.size() ? a < b : a.size() < b.size();
  });
  const fs::path first = candidates.directory / names.front();
  std::string contents;
  for (const std::size_t f : candidates.formats) {
    const DatasetFormat& format = formats()[f];
    contents += (contents.empty() ? "" : "; ") + format.content;
    if (format.recognizes != nullptr && !format.recognizes(first)) continue;
    Found found;
    found.format = f;
    if (format.values != nullptr) found.values = format.values(directory, first);
    for (const std::string& name : names) found.names.append(name).push_back('\0');
    return found;
  }
  throw Error(fmt::format("{} has none of: {}", first.c_str(), contents),
              "keep only files of a supported format in the directory");
}

/// Throws Error unless the format has targets as requested, with ranges for all channels.
void check(const Found& found, const fs::path& directory, const Shape& shape,
           const TargetSpec& targets) {
  const bool has_labels = formats()[found.format].has_labels;
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
  const DatasetFormat& format = formats()[found.format];
  DatasetFiles files(format.is_beside_others ? directory : directory / split, found.names);
  return format.open(comm, std::move(files), shape, targets, found.values);
}

TargetSpec targets_of(const Loss& loss, const Shape& output) {
  return loss.target_type() == DataType::kUint8 ? TargetSpec::labels(loss.voxel_classes(output))
                                                : TargetSpec(loss.target_shape().c);
}

}  // namespace halomesh
