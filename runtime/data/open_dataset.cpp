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
#include "runtime/data/dataset_over.hpp"
#include "runtime/data/table_targets.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

const std::vector<DatasetFormat>& formats() {
  static const std::vector<DatasetFormat> kAll = Registered<DatasetFormat>::all();
  return kAll;
}

/// The names in a directory, without hidden ones; none if there is no directory. Directories are
/// included: one that is named like a sample file is rejected when it is opened; others end in /.
Names names_in(const fs::path& directory, const std::string& hint) {
  Names names;
  std::error_code code;
  if (!fs::is_directory(directory, code)) return names;
  fs::directory_iterator entry(directory, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.find('.') == std::string::npos && entry->is_directory(ignored)) name += '/';
    if (name.front() != '.') names.push_back(std::move(name));
  }
  require(!code, text("cannot list {}: {}", directory.c_str(), code.message()), hint);
  return names;
}

/// The files of a split and their kind.
struct Found {
  std::size_t format = 0;  ///< the index in formats()
  bool lacks_targets = false;
  bool is_divided = false;  ///< the files have the samples of both splits
  SampleFormat values;
  std::string names;  ///< sorted, each ending in '\0'
};

std::string to_text(const Found& found) {
  const std::vector<ChannelRange>& ranges = found.values.ranges();
  std::string text(1, static_cast<char>(found.format));
  text.push_back(found.lacks_targets ? '-' : '+');
  text.push_back(static_cast<char>(found.values.kind()));
  text.push_back(found.is_divided ? '/' : '=');
  text += fmt::format("{} ", ranges.size());
  text.append(reinterpret_cast<const char*>(ranges.data()),  // NOLINT: bytes
              ranges.size() * sizeof(ChannelRange));
  return text + found.names;
}

Found found_in(const std::string& text) {
  Found found;
  found.format = static_cast<unsigned char>(text[0]);
  found.lacks_targets = text[1] == '-';
  found.is_divided = text[3] == '/';
  std::size_t at = text.find(' ', 4);
  std::vector<ChannelRange> ranges(std::stoul(text.substr(4, at - 4)));
  const std::size_t bytes = ranges.size() * sizeof(ChannelRange);
  ++at;
  if (bytes > 0) std::memcpy(ranges.data(), text.data() + at, bytes);
  if (static_cast<SampleFormat::Kind>(text[2]) == SampleFormat::Kind::kField)
    found.values = SampleFormat::field(std::move(ranges));
  found.names = text.substr(at + bytes);
  return found;
}

/// The files of one directory whose names fit some layouts.
struct Candidates {
  fs::path directory;
  Names names;
  std::vector<std::size_t> formats{};
  bool are_divided = false;  ///< Found::is_divided
};

/// The layouts that this program reads, as a hint.
std::string layouts_of(const std::string& split) {
  std::string all;
  for (const DatasetFormat& format : formats()) {
    std::string files = format.files;
    for (std::size_t at = files.find("SPLIT"); at != std::string::npos; at = files.find("SPLIT"))
      files.replace(at, std::strlen("SPLIT"), split.empty() ? "." : split);
    if (!files.empty()) all += (all.empty() ? "" : "; ") + files;
  }
  return "--data DIR must hold one of: " + all + "; `halomesh synth` makes a data set";
}

/// Keeps the names of one split: see in_share().
void keep_share(double share, const std::string& split, Names& names) {
  Names plain;
  plain.reserve(names.size());
  for (const std::string& name : names) plain.push_back(plain_name(name));
  Names kept;
  for (const std::int64_t i : in_share(share, split, plain))
    kept.push_back(std::move(names[static_cast<std::size_t>(i)]));
  names = std::move(kept);
}

/// The files whose names fit one or several layouts. Throws Error if there are no such files, or if
/// some fit other layouts than the rest.
Candidates candidates_in(const DataSource& source, const std::string& split) {
  const fs::path& directory = source.directory;
  const fs::path of_split = source.of_split(split);
  const std::string hint = layouts_of(split);
  std::error_code code;
  const Names beside = names_in(directory, hint);
  Names within = names_in(of_split, hint);
  if (fs::is_regular_file(directory, code)) within = {directory.filename().string()};
  if (source.has_table()) std::erase(within, fs::path(source.targets).filename());
  Candidates found;
  for (std::size_t f = 0; f < formats().size(); ++f) {
    const DatasetFormat& format = formats()[f];
    Names names;
    for (const std::string& name : format.is_beside_others ? beside : within)
      if (format.has_name(name, split)) names.push_back(name);
    if (names.empty()) continue;
    // Other directories may lie beside files of samples.
    std::sort(names.begin(), names.end());
    if (format.drop_labels != nullptr) format.drop_labels(names);
    if (names.front().ends_with('/') &&
        !format.recognizes((of_split / names.front()).parent_path(), source))
      continue;
    for (std::string& name : names)
      if (name.ends_with('/')) name.pop_back();
    const bool is_shared = source.share > 0 && !format.is_beside_others;
    // Rows of a table may be in the order of all files.
    const bool is_divided = is_shared && (names.size() == 1 || source.has_table());
    if (is_shared && !is_divided) keep_share(source.share, split, names);
    const fs::path& where = format.is_beside_others ? directory : of_split;
    require(found.names.empty() || (found.names == names && found.directory == where),
            text("{} holds samples in two formats, such as {} and {}", directory.c_str(),
                 found.names.empty() ? "" : found.names.front(), names.front()),
            text("keep one of them for the split {}", split));
    if (found.formats.empty()) found = {where, std::move(names), {}, is_divided};
    found.formats.push_back(f);
  }
  require(!found.names.empty() || fs::is_directory(of_split, code),
          text("{} is not a directory", of_split.c_str()), hint);
  require(!found.names.empty(),
          text("{} holds no samples in files of a known name (and {} others)", of_split.c_str(),
               within.size()),
          hint);
  return found;
}

Found find_files(const DataSource& source, const std::string& split, const TargetSpec& targets) {
  Candidates candidates = candidates_in(source, split);
  Names& names = candidates.names;
  const bool numbered = formats()[candidates.formats.front()].is_beside_others;
  // Names are sorted by length first: archives' numbers may grow beyond five digits.
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return !numbered || a.size() == b.size() ? a < b : a.size() < b.size();
  });
  const fs::path first = candidates.directory / names.front();
  for (const std::size_t f : candidates.formats) {
    const DatasetFormat& format = formats()[f];
    const bool is_it =
        format.recognizes == nullptr ? source.inputs.empty() : format.recognizes(first, source);
    if (!is_it) continue;
    Found found;
    found.format = f;
    found.is_divided = candidates.are_divided;
    found.lacks_targets =
        format.lacks_targets != nullptr && format.lacks_targets(first, source, targets);
    if (format.values != nullptr) found.values = format.values(first, source);
    for (const std::string& name : names) found.names.append(name).push_back('\0');
    return found;
  }
  throw Error(fmt::format("{} holds no samples{}", first.c_str(),
                          source.inputs.empty() ? "" : fmt::format(" named {}", source.inputs)),
              layouts_of(split));
}

/// Throws Error unless the format has targets as requested, with ranges for all channels.
void check(const Found& found, const DataSource& source, const Shape& shape,
           const TargetSpec& targets) {
  using enum FormatTargets;
  const fs::path& directory = source.directory;
  const DatasetFormat& format = formats()[found.format];
  const FormatTargets has = format.targets;
  for (const auto& [option, name] : {std::pair{"--inputs", source.inputs},
                                     {"--targets-from", source.has_table() ? "" : source.targets}})
    require(name.empty() || format.takes_names,
            text("{} {}: {} holds files that have datasets of fixed names, or none ({})", option,
                 name, directory.c_str(), format.name),
            "leave it out: only HDF5 files with x and y or labels take other names");
  require(has != kBeside || targets.scalars == 0,
          text("{} holds samples without targets", directory.c_str()),
          "name a table of the targets by --targets-from");
  require(has != kScalars || targets.classes == 0,
          text("{} holds samples without labels, the network is trained for {} classes of voxels",
               directory.c_str(), targets.classes),
          "use data with labels, or a network for regression");
  require(has != kLabels || targets.classes > 0 || targets.is_none(),
          text("{} holds samples with labels, the network is trained for {} targets",
               directory.c_str(), targets.scalars),
          "use data with such targets, or a network for segmentation");
  const std::vector<ChannelRange>& ranges = found.values.ranges();
  require(ranges.empty() || std::ssize(ranges) == shape.c,
          text("{}/{} has ranges of {} channels, samples are {}", directory.c_str(), kStats,
               ranges.size(), shape),
          text("try --input {}x{}x{}x{}", shape.d, shape.h, shape.w, ranges.size()));
}

/// Finds the files of a split, which must have the targets `in_files`. Collective.
Found find_files(const Comm& comm, const DataSource& source, const std::string& split,
                 const Shape& shape, const TargetSpec& targets, const TargetSpec& in_files) {
  return found_in(on_first_rank(comm, [&] {
    const Found made = find_files(source, split, targets);
    check(made, source, shape, in_files);
    return to_text(made);
  }));
}

std::unique_ptr<const Dataset> open_files(const Comm& comm, const Found& found,
                                          const DataSource& source, const std::string& split,
                                          const Shape& shape, const TargetSpec& targets) {
  const DatasetFormat& format = formats()[found.format];
  const fs::path directory = source.of_split(split);
  DatasetFiles files(format.is_beside_others ? source.directory : directory, found.names);
  return format.open(comm, std::move(files), shape, targets, found.values, source);
}

/// Leaves of files with the samples of both splits those that the split has.
std::unique_ptr<const Dataset> shared(std::unique_ptr<const Dataset> samples, const Found& found,
                                      const DataSource& source, const std::string& split,
                                      const TargetSpec& targets) {
  if (!found.is_divided) return samples;
  return with_share(std::move(samples), targets, source.share, split);
}

}  // namespace

std::unique_ptr<const Dataset> open_dataset(const Comm& comm, const DataSource& source,
                                            const std::string& split, const Shape& shape,
                                            const TargetSpec& targets) {
  const bool has_table = source.has_table(), has_labels = targets.classes > 0;
  require(!has_table || !has_labels || source.targets.ends_with(".npy"),
          text("{} gives numbers of samples, the network is trained for {} classes of voxels",
               source.targets, targets.classes),
          "use a .npy array of labels, other data with labels, or a network for regression");
  const TargetSpec in_files = has_table ? TargetSpec::none() : targets;
  const Found found = find_files(comm, source, split, shape, targets, in_files);
  auto samples = open_files(comm, found, source, split, shape, in_files);
  if (has_table && has_labels) {
    const fs::path path = on_first_rank(comm, [&] { return table_path(source, split).string(); });
    samples =
        with_labels(comm, std::move(samples),
                    DatasetFiles(path.parent_path(), path.filename().string() + '\0'), targets);
  } else if (has_table) {
    samples = with_table(comm, std::move(samples), source, split, targets);
  }
  return shared(std::move(samples), found, source, split, targets);
}

std::unique_ptr<const Dataset> open_inputs(const Comm& comm, const DataSource& source,
                                           const std::string& split, const Shape& shape,
                                           const TargetSpec& targets) {
  const Found found = find_files(comm, source, split, shape, targets, TargetSpec::none());
  const auto table = [&] {
    std::error_code ignored;
    return source.has_table() && fs::exists(table_path(source, split), ignored) ? "table" : "";
  };
  if (!found.lacks_targets || !on_first_rank(comm, table).empty())
    return open_dataset(comm, source, split, shape, targets);
  return shared(
      without_truth(open_files(comm, found, source, split, shape, TargetSpec::none()), targets),
      found, source, split, targets);
}

DataType type_of_samples(const Comm& comm, const DataSource& source, const std::string& split) {
  const auto find = [&] { return to_text(find_files(source, split, TargetSpec::none())); };
  return found_in(on_first_rank(comm, find)).values.type();
}

TargetSpec targets_of(const Loss& loss, const Shape& output) {
  if (loss.target_type() == DataType::kUint8) return TargetSpec::labels(loss.voxel_classes(output));
  TargetSpec spec(loss.target_shape().c);
  if (const std::int64_t classes = loss.sample_classes(); classes > 0)
    spec.limits = {0, static_cast<double>(classes - 1), true,
                   loss.takes_yes_or_no()
                       ? "the loss takes yes or no: correct the label, or use --loss ce for classes"
                       : fmt::format("the network has {} outputs, one for each class: correct the "
                                     "label, or use a network with more outputs",
                                     output.c)};
  return spec;
}

}  // namespace halomesh
