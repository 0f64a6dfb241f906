// SPDX-License-Identifier: Apache-2.0
// The files of a synthetic data set: see synth_files.hpp.
#include "src/apps/data/synth_files.hpp"

#include <algorithm>
#include <cstdio>
#include <regex>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "runtime/data/archive.hpp"
#include "runtime/posix/free_space.hpp"
#include "runtime/posix/input_file.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

constexpr const char *kDescription = "dataset.json", *kStats = "stats.h5";

std::string numbered(std::int64_t number, int digits) {
  std::string text = std::to_string(number);
  text.insert(0, static_cast<std::size_t>(std::max<std::int64_t>(0, digits - std::ssize(text))),
              '0');
  return text;
}

/// The files in a directory with matching names, and the temporary files of a killed run.
template <class Is>
std::vector<fs::path> files_in(const fs::path& directory, const Is& is) {
  std::vector<fs::path> files;
  if (!fs::exists(directory)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (is(entry.path().filename().string())) files.push_back(entry.path());
  return files;
}

/// True for an archive file of either split, also if it is still being written.
bool is_archive_or_partial(std::string_view name) {
  constexpr std::string_view kPartial = ".partial";
  if (name.starts_with('.')) name.remove_prefix(1);
  if (name.ends_with(kPartial)) name.remove_suffix(kPartial.size());
  return is_archive_name(name, "train") || is_archive_name(name, "validation");
}

bool is_hdf5(std::string_view name) { return name.find(".h5") != std::string_view::npos; }

bool is_record(std::string_view name) { return name.find(".tfrecord") != std::string_view::npos; }

/// All sample files, in any format.
std::vector<fs::path> samples_in(const fs::path& directory) {
  std::vector<fs::path> files = files_in(directory, is_archive_or_partial);
  for (const char* split : {"train", "validation"})
    for (fs::path& file : files_in(directory / split, [](const std::string& name) {
           return is_record(name) || is_hdf5(name);
         }))
      files.push_back(std::move(file));
  return files;
}

bool is_ours(const fs::path& file) {
  static const std::regex kName(R"(\.?universe_s\d+_\d+_\d+\.tfrecord(\.partial)?)");
  const std::string name = file.filename().string();
  static const std::regex kImage(R"(\.?data-s\d+-\d+\.h5(\.partial)?)");
  if (is_record(name)) return std::regex_match(name, kName);
  if (std::regex_match(name, kImage)) return true;
  if (name.ends_with(".partial")) return true;
  return read_archive_attributes(Hdf5File::open(file)).source.starts_with(kSynthSource);
}

void check_space(const fs::path& directory, std::int64_t bytes) {
  fs::path existing = fs::absolute(directory);
  while (!fs::exists(existing)) existing = existing.parent_path();
  const FreeSpace free = free_space(existing);
  if (free.bytes >= bytes) return;
  throw Error(fmt::format("the data set needs about {} bytes in {}, {} {}", bytes, existing.c_str(),
                          free.bytes, free.text()),
              "free space, use another --out, or make fewer or smaller samples");
}

}  // namespace

std::vector<SynthUniverse> universes_of(const SynthPlan& plan) {
  std::vector<SynthUniverse> universes;
  for (const bool validation : {false, true})
    for (std::int64_t left = validation ? plan.validation : plan.train; left > 0;
         left -= plan.boxes_per_universe)
      universes.push_back(
          {std::ssize(universes), std::min(left, plan.boxes_per_universe), validation});
  return universes;
}

fs::path file_of(std::uint64_t seed, const SynthUniverse& universe, std::int64_t box) {
  return fs::path(universe.validation ? "validation" : "train") /
         fmt::format("universe_s{}_{}_{}.tfrecord", seed, numbered(universe.universe, 6),
                     numbered(box, 3));
}

fs::path climate_file_of(std::uint64_t seed, const std::string& split, std::int64_t image) {
  return fs::path(split) / fmt::format("data-s{}-{}.h5", seed, numbered(image, 6));
}

std::vector<SynthGroup> groups_of(const std::vector<SynthUniverse>& universes,
                                  std::int64_t samples) {
  std::vector<SynthGroup> groups;
  for (const SynthUniverse& universe : universes) {
    const bool same_split =
        !groups.empty() && groups.back().universes.back().validation == universe.validation;
    if (!same_split)
      groups.push_back({});
    else if (const SynthGroup& last = groups.back(); last.samples >= samples)
      groups.push_back({last.first_sample + last.samples, 0, last.file + 1, {}});
    groups.back().universes.push_back(universe);
    groups.back().samples += universe.boxes;
  }
  return groups;
}

void prepare_directory(const fs::path& directory, bool overwrite, std::int64_t bytes,
                       SynthFormat format) {
  const std::vector<fs::path> old = samples_in(directory);
  std::int64_t freed = 0;
  for (const fs::path& file : old) {
    if (!overwrite)
      throw Error(
          fmt::format("{} already holds samples, such as {}", directory.c_str(), file.c_str()),
          "use another --out, or --overwrite to replace them");
    if (!is_ours(file))
      throw Error(fmt::format("{} was not written by this command", file.c_str()),
                  "use another --out");
    freed += static_cast<std::int64_t>(fs::file_size(file));
  }
  check_space(directory, bytes - freed);
  require_target(directory);
  fs::create_directories(directory);
  if (format != SynthFormat::kArchive)
    for (const char* split : {"train", "validation"}) fs::create_directories(directory / split);
  // removed first, because without it the data set counts as incomplete
  fs::remove(directory / kDescription);
  if (!old.empty()) fs::remove(directory / kStats);
  for (const fs::path& file : old) fs::remove(file);
}

}  // namespace halomesh
