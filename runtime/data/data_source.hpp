// SPDX-License-Identifier: Apache-2.0
// A data set as users name it.
#pragma once

#include <concepts>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace halomesh {

/// Where the samples of a data set are, and where their targets.
struct DataSource {
  std::filesystem::path directory;  ///< holds the splits; or, to predict, samples, or is one file
  std::string inputs{};             ///< the dataset of HDF5 files that has samples; empty: /x
  /// The dataset that has targets, or a table of scalars: see is_table(); empty: where the format
  /// has them.
  std::string targets{};
  /// The share of train/, or of the directory without it, that is the split validation; 0: that is
  /// in a directory of its own.
  double share = 0;

  template <std::convertible_to<std::filesystem::path> Path>
  DataSource(Path in)  // NOLINT(google-explicit-constructor): a data set without names of its own
      : directory(std::move(in)) {}
  DataSource(std::filesystem::path in, std::string of_inputs, std::string of_targets)
      : directory(std::move(in)), inputs(std::move(of_inputs)), targets(std::move(of_targets)) {}

  /// The directory of the files of a split, whose name may be empty: those of `directory` itself.
  std::filesystem::path of_split(const std::string& split) const {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(directory, ignored)) return directory.parent_path();
    if (split.empty()) return directory;
    const std::string name = share > 0 ? "train" : split;
    if (std::filesystem::is_directory(directory / name, ignored)) return directory / name;
    if (name == "train" && std::filesystem::is_directory(directory / "imagesTr", ignored))
      return directory / "imagesTr";
    return share > 0 ? directory : directory / split;
  }
  /// True if targets are in a file of their own, .npy, .csv, .tsv or .txt.
  bool has_table() const {
    const std::string end = std::filesystem::path(targets).extension().string();
    return end == ".npy" || end == ".csv" || end == ".tsv" || end == ".txt";
  }
};

}  // namespace halomesh
