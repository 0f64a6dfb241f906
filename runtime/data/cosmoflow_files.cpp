// SPDX-License-Identifier: Apache-2.0
// The HDF5 files of the CosmoFlow benchmark: boxes, and universes that are cut into boxes.
#include "runtime/data/dataset_format.hpp"

namespace halomesh {
namespace {

const Registered<DatasetFormat> kSamples([] {
  return DatasetFormat{
      .name = "CosmoFlow samples",
      .content = "x and y",
      .has_name = is_hdf5_name,
      .recognizes =
          [](const auto& first) {
            return has_datasets(first, {kSampleKind.voxels.name, kSampleKind.targets});
          },
      .open = open_hdf5<kSampleKind>};
});

const Registered<DatasetFormat> kUniverses([] {
  return DatasetFormat{
      .name = "CosmoFlow universes",
      .content = "full and unitPar",
      .has_name = is_hdf5_name,
      .recognizes =
          [](const auto& first) {
            return has_datasets(first, {kUniverseKind.voxels.name, kUniverseKind.targets});
          },
      .open = open_hdf5<kUniverseKind>};
});

}  // namespace
}  // namespace halomesh
