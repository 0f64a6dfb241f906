// SPDX-License-Identifier: Apache-2.0
// The places where the elements of a dataset are stored. For elements that are nowhere, the HDF5
// library silently reads its fill value.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/hdf5/hdf5_library.hpp"

namespace halomesh::hdf5 {

/// Checks that all files with elements of `dataset` exist, apart from `file` itself, which calls it
/// `name`: the sources of a virtual dataset, each of which must also have the selected elements,
/// and raw files. Returns their paths. Throws Error naming the missing data.
std::vector<std::filesystem::path> require_sources(hid_t dataset, const std::string& name,
                                                   const std::filesystem::path& file);

/// Calls require_sources(), and checks that every element has been written. Reads the index of the
/// chunks.
std::vector<std::filesystem::path> require_stored(hid_t dataset, const std::string& name,
                                                  const std::filesystem::path& file);

}  // namespace halomesh::hdf5
