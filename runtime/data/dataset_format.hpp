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
#include <vector>

#include "registered.hpp"
#include "runtime/data/data_source.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/hdf5_dataset.hpp"

namespace halomesh {

/// The targets that the files of a layout can have: kBeside stands for labels in files of their
/// own.
enum class FormatTargets : std::uint8_t { kScalars, kLabels, kAny, kBeside };

/// A layout of the files of a split.
struct DatasetFormat {
  std::string name{};   ///< the layout's name; layouts are tried in the order of names
  std::string files{};  ///< the names and the content of its files, for messages; may be empty
  FormatTargets targets = FormatTargets::kScalars;
  /// True if files lie in --data DIR itself, beside those of other splits, and not in DIR/SPLIT.
  bool is_beside_others = false;
  /// True if users may name the datasets of its files.
  bool takes_names = false;
  /// True if a file of this name belongs to the split, provided it has this layout.
  bool (*has_name)(std::string_view name, std::string_view split) = nullptr;
  /// True if the first file has this layout, with the datasets of `source` if it names any; null:
  /// names decide, and no datasets are named.
  bool (*recognizes)(const std::filesystem::path& first, const DataSource& source) = nullptr;
  /// Leaves out, of the sorted names, those of labels beside samples; null: none are.
  void (*drop_labels)(std::vector<std::string>& names) = nullptr;
  /// True if the first file has samples without such targets; null: none has.
  bool (*lacks_targets)(const std::filesystem::path& first, const DataSource& source,
                        const TargetSpec& targets) = nullptr;
  /// The kind of the samples' values, from the first file; null: counts.
  SampleFormat (*values)(const std::filesystem::path& first, const DataSource& source) = nullptr;
  /// Opens the files of a split, with targets or without. Collective over `comm`.
  std::unique_ptr<const Dataset> (*open)(const Comm& comm, DatasetFiles files, const Shape& shape,
                                         const TargetSpec& targets, const SampleFormat& values,
                                         const DataSource& source) = nullptr;
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
                                         const TargetSpec& targets, const SampleFormat& values,
                                         const DataSource& /*source*/) {
  return std::make_unique<Hdf5Dataset>(comm, std::move(files), kKind, shape, targets, values);
}

/// True if an HDF5 file has all these datasets.
inline bool has_datasets(const std::filesystem::path& path,
                         std::initializer_list<std::string> names) {
  const Hdf5File file = Hdf5File::open(path);
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return file.contains(name); });
}

}  // namespace halomesh
