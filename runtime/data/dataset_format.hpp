// SPDX-License-Identifier: Apache-2.0
// The file layouts of data sets. To add one, add a file to this room with a
// Registered<DatasetFormat>.
#pragma once

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "registered.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/hdf5_dataset.hpp"

namespace halomesh {

/// A layout of the files of a split.
struct DatasetFormat {
  std::string name{};  ///< the layout's name; layouts are tried in the order of names
  /// The content of the files, for the message if the first file of a split has no known layout.
  std::string content{};
  bool has_labels = false;
  /// True if files lie in --data DIR itself, beside those of other splits, and not in DIR/SPLIT.
  bool is_beside_others = false;
  /// True if a file of this name belongs to the split, provided it has this layout.
  bool (*has_name)(std::string_view name, std::string_view split) = nullptr;
  /// True if the first file has this layout; null: names decide.
  bool (*recognizes)(const std::filesystem::path& first) = nullptr;
  /// The kind of the samples' values, from the first file and the directory that is given as
  /// --data; null: counts.
  SampleFormat (*values)(const std::filesystem::path& directory,
                         const std::filesystem::path& first) = nullptr;
  /// Opens the files of a split. Collective over `comm`.
  std::unique_ptr<const Dataset> (*open)(const Comm& comm, DatasetFiles files, const Shape& shape,
                                         const TargetSpec& targets,
                                         const SampleFormat& values) = nullptr;
};

/// The file with the ranges of a data set of fields.
inline constexpr const char* kStats = "stats.h5";

/// True if `name` is that of an HDF5 file with a sample in DIR/SPLIT.
inline bool is_hdf5_name(std::string_view name, std::string_view /*split*/) {
  return name != kStats && (name.ends_with(".h5") || name.ends_with(".hdf5"));
}

/// Opens HDF5 files of a kind.
template <const Hdf5Kind& kKind>
std::unique_ptr<const Dataset> open_hdf5(const Comm& comm, DatasetFiles files, const Shape& shape,
                                         const TargetSpec& targets, const SampleFormat& values) {
  return std::make_unique<Hdf5Dataset>(comm, std::move(files), kKind, shape, targets, values);
}

/// True if an HDF5 file has all these datasets.
inline bool has_datasets(const std::filesystem::path& path,
                         std::initializer_list<const char*> names) {
  const Hdf5File file = Hdf5File::open(path);
  return std::all_of(names.begin(), names.end(),
                     [&](const char* name) { return file.contains(name); });
}

}  // namespace halomesh
