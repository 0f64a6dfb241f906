// SPDX-License-Identifier: Apache-2.0
// Files that hold the arrays of samples: HDF5 files with datasets of any names, those of the
// CosmoFlow benchmark by default, and .npy files; and universes, which are cut into boxes.
#include "runtime/data/dataset_format.hpp"
#include "runtime/data/label_names.hpp"
#include "runtime/data/table_targets.hpp"
#include "runtime/mpi/collective_errors.hpp"

namespace halomesh {
namespace {

constexpr const char* kLabelsDataset = "/labels";

namespace fs = std::filesystem;

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

bool lacks_dataset(const fs::path& first, const DataSource& source, const TargetSpec& targets) {
  const char* const usual = targets.classes > 0 ? kLabelsDataset : kSampleKind.targets.c_str();
  return !has_datasets(first, {path_in_file(source.targets, usual)});
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
  return DatasetFormat{
      .name = "CosmoFlow universes",
      .files = "SPLIT/*.h5 or *.hdf5 with full and unitPar",
      .has_name = is_hdf5_name,
      .recognizes =
          [](const auto& first, const auto& source) {
            return source.inputs.empty() && has_datasets(first, {kUniverseKind.voxels.name});
          },
      .lacks_targets = [](const auto& first, const auto&,
                          const auto&) { return !has_datasets(first, {kUniverseKind.targets}); },
      .open = open_hdf5<kUniverseKind>};
});

constexpr std::string_view kNpy = ".npy";

/// The stem of the samples whose labels the file `name` would have; empty if it would not.
std::string samples_of(std::string_view name) {
  for (const std::string_view word : kLabelWords)
    if (const std::string end = fmt::format("_{}{}", word, kNpy); name.ends_with(end))
      return std::string(name.substr(0, name.size() - end.size()));
  return {};
}

void drop_label_arrays(std::vector<std::string>& names) {
  const std::vector<std::string> all = names;
  std::erase_if(names, [&](const std::string& name) {
    std::string stem = samples_of(name);
    return !stem.empty() && std::binary_search(all.begin(), all.end(), stem.append(kNpy));
  });
}

/// The name of the file with the labels of a file of samples; empty if there is none.
std::string labels_beside(const fs::path& samples) {
  std::error_code ignored;
  for (const char* const word : kLabelWords)
    if (std::string name = fmt::format("{}_{}{}", samples.stem().c_str(), word, kNpy);
        fs::exists(samples.parent_path() / name, ignored))
      return name;
  return {};
}

std::unique_ptr<const Dataset> open_arrays(const Comm& comm, DatasetFiles files, const Shape& shape,
                                           const TargetSpec& targets, const SampleFormat& values,
                                           const DataSource& /*source*/) {
  if (targets.classes == 0)
    return std::make_unique<Hdf5Dataset>(comm, std::move(files), kArrayKind, shape, targets,
                                         values);
  const std::string labels = on_first_rank(comm, [&] {
    std::string names;
    for (std::int64_t f = 0; f < files.size(); ++f) {
      const fs::path path = files.path(f);
      const std::string name = labels_beside(path);
      require(
          !name.empty(), text("{} has no labels", path.c_str()),
          text("name them {}_seg.npy beside it, or give a .npy array of the labels of all samples "
               "by --targets-from",
               path.stem().c_str()));
      names.append(name).push_back('\0');
    }
    return names;
  });
  DatasetFiles of_labels(files.directory(), labels);
  return with_labels(comm,
                     std::make_unique<Hdf5Dataset>(comm, std::move(files), kArrayKind, shape,
                                                   TargetSpec::none(), values),
                     std::move(of_labels), targets);
}

const Registered<DatasetFormat> kArrays([] {
  return DatasetFormat{
      .name = "NumPy",
      .files = "SPLIT/*.npy with the table that --targets-from names, or with labels in *_seg.npy",
      .targets = FormatTargets::kBeside,
      .has_name = [](std::string_view name, std::string_view) { return name.ends_with(kNpy); },
      .drop_labels = drop_label_arrays,
      .lacks_targets =
          [](const fs::path& first, const DataSource&, const TargetSpec& targets) {
            return targets.classes == 0 || labels_beside(first).empty();
          },
      .values = [](const auto& first, const auto&) { return format_of(first, Hdf5File::kArray); },
      .open = open_arrays};
});

}  // namespace
}  // namespace halomesh
