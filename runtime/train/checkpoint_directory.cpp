// SPDX-License-Identifier: Apache-2.0
// The directory of checkpoints: see checkpoint_directory.hpp.
#include "runtime/train/checkpoint_directory.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "error.hpp"
#include "runtime/posix/atomic_file.hpp"

namespace halomesh {
namespace {

constexpr std::string_view kPrefix = "step-", kSuffix = ".h5";
constexpr std::size_t kDigits = 9;

/// The step in a checkpoint's name; -1 if it is not the name of a checkpoint.
std::int64_t step_in(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() < kPrefix.size() + kDigits + kSuffix.size())
    return -1;
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size() - kSuffix.size();
  std::int64_t step = -1;
  const auto [stop, error] = std::from_chars(begin, end, step);
  return error == std::errc() && stop == end && checkpoint_name(step) == name ? step : -1;
}

/// Steps of the checkpoints in a directory, ascending; none if it does not exist.
std::vector<std::int64_t> steps_in(const std::filesystem::path& directory) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::int64_t step = step_in(entry->path().filename().string());
    if (step >= 0) steps.push_back(step);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error(fmt::format("cannot list {}: {}", directory.string(), error.message()),
                "check that it is a directory that may be read");
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace

std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  for (const std::int64_t step : steps_in(directory))
    paths.push_back(directory / checkpoint_name(step));
  std::reverse(paths.begin(), paths.end());
  return paths;
}

std::filesystem::path set_aside(const std::filesystem::path& checkpoint) {
  std::filesystem::path aside = checkpoint.string() + ".damaged";
  for (int number = 2; std::filesystem::exists(aside); ++number)
    aside = fmt::format("{}.damaged-{}", checkpoint.string(), number);
  std::error_code error;
  std::filesystem::rename(checkpoint, aside, error);
  if (error)
    throw Error(
        fmt::format("cannot rename the damaged {}: {}", checkpoint.string(), error.message()),
        "check the permissions of the directory");
  return aside;
}

const std::filesystem::path& prepare_checkpoint_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw Error(
        fmt::format("cannot create the directory {}: {}", directory.string(), error.message()),
        "give an --out directory that may be written to");
  remove_partial_files(directory, kPrefix);
  return directory;
}

std::string checkpoint_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return fmt::format("{}{}{}", kPrefix, digits, kSuffix);
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory) {
  const auto paths = checkpoints_in(directory);
  if (paths.empty()) return std::nullopt;
  return paths.front();
}

void retire_checkpoints(const std::filesystem::path& directory, std::int64_t step, int keep) {
  std::error_code error;
  const auto report = [&](const char* action, const std::filesystem::path& path) {
    if (error && error != std::errc::no_such_file_or_directory)
      throw Error(fmt::format("the checkpoint of step {} is saved, but cannot {} {}: {}", step,
                              action, path.string(), error.message()),
                  "check the permissions of the directory");
  };
  std::vector<std::int64_t> steps = steps_in(directory);
  const auto later = std::upper_bound(steps.begin(), steps.end(), step);
  for (auto it = later; it != steps.end(); ++it) {
    const auto path = directory / checkpoint_name(*it);
    std::filesystem::rename(path, path.string() + ".superseded", error);
    report("rename", path);
  }
  steps.erase(later, steps.end());
  if (keep <= 0) return;
  while (steps.size() > static_cast<std::size_t>(keep)) {
    const auto path = directory / checkpoint_name(steps.front());
    std::filesystem::remove(path, error);
    report("remove", path);
    steps.erase(steps.begin());
  }
}

}  // namespace halomesh
