// SPDX-License-Identifier: Apache-2.0
// Output directories: see output_directory.hpp.
#include "src/apps/launch/output_directory.hpp"

#include <functional>
#include <iostream>

#include "printable.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/input_file.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// True if both paths are one file; false if either does not exist.
bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code none;
  return fs::equivalent(a, b, none);
}

bool lies_in(const fs::path& path, const fs::path& directory) {
  std::error_code none;
  fs::path at = fs::weakly_canonical(path, none);
  while (at.has_relative_path() && !is_same(at, directory)) at = at.parent_path();
  return at.has_relative_path();
}

/// Says what a run of `train` or a data set has at this path or above it, where no other command
/// writes; empty if there is nothing. `out` is a directory where such a run is about to start.
std::string place_in_others(const fs::path& path, const fs::path& out) {
  std::error_code none;
  const fs::path whole = fs::weakly_canonical(path, none);
  const auto is_run = [&](const fs::path& directory) {
    return fs::exists(directory / "run.json", none) || is_same(directory, out);
  };
  for (const char* const own :
       {"run.json", "metrics.jsonl", "mllog.txt", "result.json", "output.txt"})
    if (whole.filename() == own && is_run(whole.parent_path()))
      return "is a file of a training run";
  for (fs::path at = whole; at.has_relative_path(); at = at.parent_path()) {
    const fs::path name = at.filename(), holder = at.parent_path();
    if (name == "checkpoints" && is_run(holder))
      return fmt::format("lies in checkpoints/ of the training run {}", holder.string());
    const bool is_train = name == "train";
    if ((is_train || name == "validation") &&
        (fs::exists(holder / "dataset.json", none) ||
         fs::is_directory(holder / (is_train ? "validation" : "train"), none)))
      return fmt::format("lies in {}/ of the data set {}", name.string(), holder.string());
  }
  return {};
}

/// Refuses a file in the directory `data` itself that is one of the data set's, such as a table of
/// targets, or that would be taken for a sample.
void check_beside_samples(const fs::path& path, const fs::path& data, const std::string& named,
                          const std::function<void(const std::string&)>& refuse) {
  std::error_code none;
  const std::string name = path.filename().string();
  if (!is_same(path.has_parent_path() ? path.parent_path() : ".", data)) return;
  const bool is_file = fs::is_regular_file(path, none);
  const bool is_prediction = is_file && read_head(path, 7) == "sample,";
  if ((is_file && !is_prediction) || name == "dataset.json" || name.starts_with("train-") ||
      name.starts_with("validation-"))
    refuse("is a file of " + named);
  const bool has_splits = fs::is_directory(data / "train") || fs::is_directory(data / "validation");
  const fs::path kind = path.extension();
  if (has_splits || is_prediction || kind.empty() || kind == ".csv") return;
  for (const auto& entry : fs::directory_iterator(data))
    if (entry.is_regular_file(none) && entry.path().extension() == kind)
      refuse(fmt::format("would be one of the samples of {}", named));
}

/// Throws on every rank the UsageError that `check` throws on the first. Collective over `world`.
void check_on_first_rank(const Comm& world, const std::function<void()>& check) {
  const std::string refused = on_first_rank(world, [&] {
    try {
      check();
    } catch (const UsageError& error) {
      return fmt::format("{}\n{}", error.what(), error.hint());
    }
    return std::string();
  });
  const std::size_t hint = refused.rfind('\n');
  if (!refused.empty()) throw UsageError(refused.substr(0, hint), refused.substr(hint + 1));
}

}  // namespace

std::unique_ptr<DirectoryLock> hold_directory(const Comm& world,
                                              const std::filesystem::path& directory,
                                              const std::string& activity,
                                              const std::string& option) {
  check_on_first_rank(world, [&] {
    if (const std::string taken = place_in_others(directory, ""); !taken.empty())
      throw UsageError(fmt::format("{} {} {}", option, directory.string(), taken),
                       "give another path");
  });
  std::unique_ptr<DirectoryLock> lock;
  on_first_rank(world, [&] {
    LockTerms terms{activity, option, [](const std::string& text) {
                      std::cerr << "note: " + printable(text) + '\n';
                    }};
    lock = std::make_unique<DirectoryLock>(directory, std::move(terms));
    return std::string();
  });
  return lock;
}

void require_other_use(const Comm& world, const fs::path& directory, const std::string& mark,
                       const std::string& what) {
  check_on_first_rank(world, [&] {
    for (const auto& entry : fs::directory_iterator(directory))
      if (entry.path().filename().string().starts_with(mark))
        throw UsageError(fmt::format("--out {} holds {}", directory.string(), what),
                         "give another --out");
  });
}

void check_output(const Options& options, const std::string& output) {
  const fs::path path = options.get<std::string>(output);
  if (path.empty()) return;
  const auto refuse = [&](const std::string& what) {
    throw UsageError(fmt::format("--{} {} {}", output, path.string(), what), "give another path");
  };
  std::vector<std::string> others = options.names();
  others.emplace_back("config");
  for (const std::string& input : others) {
    std::error_code none;
    const fs::path given =
        options.names_path(input) || input == "targets-from" ? options.get<std::string>(input) : "";
    if (input == output || !fs::exists(given, none)) continue;
    const std::string named = fmt::format("--{} {}", input, given.string());
    const bool is_data = input == "data" || input == "from";
    if (is_same(path, given) && (is_data || !fs::is_directory(given)))
      refuse(fmt::format("is an input: {}", named));
    if (is_data) check_beside_samples(path, given, named, refuse);
    for (const char* const part : {"train", "validation", "checkpoints"})
      if (lies_in(path, given / part)) refuse(fmt::format("lies in {}/ of {}", part, named));
  }
  const std::string taken =
      place_in_others(path, output == "trace" ? options.get<std::string>("out") : "");
  if (!taken.empty()) refuse(taken);
}

void check_output(const Comm& world, const Options& options, const std::string& output) {
  check_on_first_rank(world, [&] { check_output(options, output); });
}

void check_output_file(const Comm& world, const Options& options, const std::string& output) {
  check_output(world, options, output);
  on_first_rank(world, [&] {
    require_writable(options.get<std::string>(output));
    return std::string();
  });
}

}  // namespace halomesh
