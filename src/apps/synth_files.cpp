// The files of a synthetic data set: see synth_files.hpp.
#include "src/apps/synth_files.hpp"

#include <algorithm>
#include <cstdio>
#include <regex>

#include "error.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription = "dataset.json";

std::string numbered(std::int64_t number, int digits) {
  std::string text = std::to_string(number);
  text.insert(0, static_cast<std::size_t>(std::max<std::int64_t>(0, digits - std::ssize(text))),
              '0');
  return text;
}

/// The TFRecord files of a split, and the temporaries of a run that was killed.
std::vector<fs::path> records_in(const fs::path& split) {
  std::vector<fs::path> files;
  if (!fs::exists(split)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(split))
    if (entry.path().filename().string().find(".tfrecord") != std::string::npos)
      files.push_back(entry.path());
  return files;
}

bool is_ours(const fs::path& file) {
  static const std::regex kName(R"(\.?universe_s\d+_\d+_\d+\.tfrecord(\.partial)?)");
  return std::regex_match(file.filename().string(), kName);
}

void check_space(const fs::path& directory, std::int64_t bytes) {
  fs::path existing = fs::absolute(directory);
  while (!fs::exists(existing)) existing = existing.parent_path();
  const auto free = static_cast<std::int64_t>(fs::space(existing).available);
  if (free >= bytes) return;
  throw Error(cat("the data set needs about ", bytes, " bytes, but ", existing.string(), " has ",
                  free, " free"),
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
         cat("universe_s", seed, '_', numbered(universe.universe, 6), '_', numbered(box, 3),
             ".tfrecord");
}

void prepare_directory(const fs::path& directory, bool overwrite, std::int64_t bytes) {
  const fs::path splits[] = {directory / "train", directory / "validation"};
  std::vector<fs::path> old;
  std::int64_t freed = 0;
  for (const fs::path& split : splits)
    for (const fs::path& file : records_in(split)) {
      if (!overwrite)
        throw Error(cat(directory.string(), " already holds samples, such as ", file.string()),
                    "use another --out, or --overwrite to replace them");
      if (!is_ours(file))
        throw Error(cat(file.string(), " was not written by this command"),
                    "use another --out, or remove the files yourself");
      freed += static_cast<std::int64_t>(fs::file_size(file));
      old.push_back(file);
    }
  check_space(directory, bytes - freed);
  for (const fs::path& split : splits) fs::create_directories(split);
  // First: while it is missing the data set is not complete.
  fs::remove(directory / kDescription);
  for (const fs::path& file : old) fs::remove(file);
}

}  // namespace halomesh
