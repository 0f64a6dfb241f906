// Which format a split is in.
// Knows formats by the names of their files; nothing of how samples lie in them.
#include "runtime/dataset.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

#include "error.hpp"
#include "runtime/dataset_files.hpp"
#include "runtime/tfrecord_dataset.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// The names of the TFRecord files of a split, sorted, each ending in '\0'.
std::string list_files(const fs::path& directory, const std::string& split) {
  const std::string cure = cat("--data DIR must hold ", split,
                               "/ with *.tfrecord files; `halomesh synth` makes such a data set");
  std::error_code code;
  require(fs::is_directory(directory, code), cat(directory.string(), " is not a directory"), cure);
  std::vector<std::string> names;
  std::int64_t others = 0;
  fs::directory_iterator entry(directory, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::string name = entry->path().filename().string();
    if (name.front() == '.' || entry->is_directory()) continue;
    if (name.find(".tfrecord") == std::string::npos)
      ++others;
    else
      names.push_back(std::move(name));
  }
  require(!code, cat("cannot list ", directory.string(), ": ", code.message()), cure);
  require(!names.empty(),
          cat(directory.string(), " holds no *.tfrecord file (and ", others, " others)"), cure);
  std::sort(names.begin(), names.end());
  std::string listed;
  for (const std::string& name : names) listed.append(name).push_back('\0');
  return listed;
}

}  // namespace

std::unique_ptr<const Dataset> Dataset::open(const Comm& comm, const fs::path& directory,
                                             const std::string& split, const Shape& shape,
                                             std::int64_t targets) {
  const fs::path of_split = directory / split;
  const std::string names = on_first_rank(comm, [&] { return list_files(of_split, split); });
  return std::make_unique<TfRecordDataset>(comm, DatasetFiles(of_split, names), shape, targets);
}

}  // namespace halomesh
