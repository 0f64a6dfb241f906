// SPDX-License-Identifier: Apache-2.0
// Where the elements of a dataset are stored. The HDF5 library reads its fill value, without a
// word, for those that are nowhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/hdf5/hdf5_library.hpp"

namespace halomesh::hdf5 {

/// Checks that every file exists that holds elements of `dataset`, which `file` calls `name`, but
/// is not `file` itself: the sources of a virtual dataset, each of which must also hold what is
/// wanted of it, and raw files. Returns their paths. Throws Error naming what is missing.
std::vector<std::filesystem::path> require_sources(hid_t dataset, const std::string& name,
                                                   const std::filesystem::path& file);

/// The same, and that every element has been written. Reads the index of the chunks.
std::vector<std::filesystem::path> require_stored(hid_t dataset, const std::string& name,
                                                  const std::filesystem::path& file);

}  // namespace halomesh::hdf5
