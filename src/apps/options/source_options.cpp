// SPDX-License-Identifier: Apache-2.0
// Names of datasets and tables: see source_options.hpp.
#include "src/apps/options/source_options.hpp"

#include "error.hpp"
#include "runtime/data/archive_name.hpp"
#include "src/apps/options/model_options.hpp"

namespace halomesh {

void add_source_options(Options& options) {
  options.as(SettingRole::kComputing)
      .add<std::string>("inputs", "NAME", "",
                        "dataset that has the samples in HDF5 files; without it, x")
      .add<std::string>(
          "targets-from", "NAME", "",
          "dataset that has the targets in HDF5 files, without it y or labels; or a "
          "table, .npy, .csv, .tsv or .txt, in the directory of the split or of the "
          "data: a row for each sample, in the order of names or beginning with them; for "
          "classes of voxels, a .npy array of the labels of all samples");
}

void add_share_option(Options& options) {
  options.as(SettingRole::kNetwork)
      .add<double>(kShareOption, "X", 0,
                   "where there is no validation/, the share of the samples of train/, or of the "
                   "directory itself, for validation: by a hash of their names; 0: none")
      .recorded(Options::Recorded::kUnlessDefault)
      .at_least(0)
      .below(1);
}

DataSource source_of(const Options& options, const std::string& directory) {
  DataSource source(options.get<std::string>(directory), options.get<std::string>("inputs"),
                    options.get<std::string>("targets-from"));
  if (directory == "data" && !options.is_declared("checkpoint"))
    set_share(source, options.get<double>(kShareOption));
  return source;
}

std::string own_splits(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (std::filesystem::is_directory(directory / "validation", ignored)) return "has validation/";
  for (const char* const split : {"train", "validation"})
    if (std::filesystem::exists(directory / archive_name(split, 0), ignored))
      return "holds an archive";
  return {};
}

void set_share(DataSource& source, double share) {
  source.share = share;
  if (const std::string own = own_splits(source.directory); share > 0 && !own.empty())
    throw UsageError(
        fmt::format("--{} {:g}: {} {}", kShareOption, share, source.directory.string(), own),
        own.ends_with("archive") ? "leave it out; halomesh convert takes --split, too"
                                 : "leave it out, or move the samples of validation/ to train/");
}

}  // namespace halomesh
