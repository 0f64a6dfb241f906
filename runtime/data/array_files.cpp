// SPDX-License-Identifier: Apache-2.0
// Files that hold the arrays of samples: HDF5 files with datasets of any names, those of the
// CosmoFlow benchmark by default, and .npy files; and universes, which are cut into boxes.
#include "runtime/data/dataset_format.hpp"

namespace halomesh {
namespace {

constexpr const char* kLabelsDataset = "/labels";

std::string path_in_file(const std::string& given, const std::string& fallback) {
  if (given.empty()) return fallback;
  return given.front() == '/' ? given : "/" + given;
}

std::string inputs_of(const DataSource& source) {
  return path_in_file(source.inputs, kSampleKind.voxels.name);
}

SampleFormat format_of(const std::filesystem::path& first, const std::string& dataset) {
  Hdf5File file = Hdf5File::open(first);
  return file.holds(dataset, Hdf5Type::kInt16) ? SampleFormat::counts() : SampleFormat::field();
}

bool lacks_dataset(const std::filesystem::path& first, const DataSource& source) {
  if (!source.targets.empty()) return !has_datasets(first, {path_in_file(source.targets, {})});
  return !has_datasets(first, {kSampleKind.targets}) && !has_datasets(first, {kLabelsDataset});
}

std::unique_ptr<const Dataset> open_samples(const Comm& comm, DatasetFiles files,
                                            const Shape& shape, const TargetSpec& targets,
                                            const SampleFormat& values, const DataSource& source) {
  Hdf5Kind kind = kSampleKind;
  kind.voxels.name = inputs_of(source);
  kind.targets = targets.classes > 0 ? "" : path_in_file(source.targets, kSampleKind.targets);
  if (targets.classes > 0) kind.labels.name = path_in_file(source.targets, kLabelsDataset);
  return std::make_unique<Hdf5Dataset>(comm, std::move(files), kind, shape, targets, values);
}

const Registered<DatasetFormat> kSamples([] {
  return DatasetFormat{
      .name = "HDF5 samples",
      .files =
          "SPLIT/*.h5 or *.hdf5 with x and y or labels, or what --inputs and --targets-from "
          "name",
      .targets = FormatTargets::kAny,
      .takes_names = true,
      .has_name = is_hdf5_name,
      .recognizes = [](const auto& first,
                       const auto& source) { return has_datasets(first, {inputs_of(source)}); },
      .lacks_targets = lacks_dataset,
      .values = [](const auto& first,
                   const auto& source) { return format_of(first, inputs_of(source)); },
      .open = open_samples};
});

const Registered<DatasetFormat> kUniverses([] {
  return DatasetFormat{.name = "CosmoFlow universes",
                       .files = "SPLIT/*.h5 or *.hdf5 with full and unitPar",
                       .has_name = is_hdf5_name,
                       .recognizes =
                           [](const auto& first, const auto& source) {
                             return source.inputs.empty() &&
                                    has_datasets(
                                        first, {kUniverseKind.voxels.name, kUniverseKind.targets});
                           },
                       .open = open_hdf5<kUniverseKind>};
});

/// The kind of .npy files, whose targets are elsewhere.
const Hdf5Kind& npy_kind() {
  static const Hdf5Kind kKind{.voxels = {Hdf5File::kArray}, .has_free_axes = true};
  return kKind;
}

const Registered<DatasetFormat> kArrays([] {
  return DatasetFormat{
      .name = "NumPy",
      .files = "SPLIT/*.npy with the table that --targets-from names",
      .targets = FormatTargets::kNone,
      .has_name = [](std::string_view name, std::string_view) { return name.ends_with(".npy"); },
      .lacks_targets = [](const auto&, const auto&) { return true; },
      .values = [](const auto& first, const auto&) { return format_of(first, Hdf5File::kArray); },
      .open = [](const Comm& comm, DatasetFiles files, const Shape& shape,
                 const TargetSpec& targets, const SampleFormat& values,
                 const DataSource&) -> std::unique_ptr<const Dataset> {
        return std::make_unique<Hdf5Dataset>(comm, std::move(files), npy_kind(), shape, targets,
                                             values);
      }};
});

}  // namespace
}  // namespace halomesh
