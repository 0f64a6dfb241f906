// SPDX-License-Identifier: Apache-2.0
// Archives as data sets.
#include "runtime/data/archive.hpp"
#include "runtime/data/dataset_format.hpp"

namespace halomesh {
namespace {

bool has_labels(const std::filesystem::path& file) {
  return read_archive_attributes(Hdf5File::open(file)).classes > 0;
}

SampleFormat values_in(const std::filesystem::path& file, const DataSource&) {
  const ArchiveFile content = read_archive_attributes(Hdf5File::open(file));
  return content.values == SampleFormat::Kind::kField ? SampleFormat::field()
                                                      : SampleFormat::counts();
}

const Registered<DatasetFormat> kArchives([] {
  return DatasetFormat{
      .name = "Archive",
      .files = "SPLIT-NNNNN.h5, made by `halomesh convert`",
      .is_beside_others = true,
      .has_name = is_archive_name,
      .recognizes = [](const auto& first, const auto&) { return !has_labels(first); },
      .values = values_in,
      .open = open_hdf5<kArchiveKind>};
});

const Registered<DatasetFormat> kLabelArchives([] {
  return DatasetFormat{
      .name = "Archive with labels",
      .targets = FormatTargets::kLabels,
      .is_beside_others = true,
      .has_name = is_archive_name,
      .recognizes = [](const auto& first, const auto&) { return has_labels(first); },
      .values = values_in,
      .open = open_hdf5<kLabelArchiveKind>};
});

}  // namespace
}  // namespace halomesh
