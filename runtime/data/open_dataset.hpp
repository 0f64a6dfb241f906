// SPDX-License-Identifier: Apache-2.0
// Opens a split of a data set in any supported format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "shape.hpp"

namespace halomesh {

/// Collective over `comm`. Opens the split that `directory` holds in one of these formats (hidden
/// files aside); every sample has shape `shape` and `targets` targets:
///   directory/SPLIT-NNNNN.h5      an archive
///   directory/SPLIT/*.tfrecord*   TFRecord, plain or gzip, one record per file or many
///   directory/SPLIT/*.h5, *.hdf5  HDF5 with one sample (x, y) or one universe (full, unitPar)
/// Files are in the order of their names, and sample numbers follow them. Throws the same Error on
/// every rank when there is no such file, files are of two formats, or one is damaged or of another
/// sample size.
std::unique_ptr<const Dataset> open_dataset(const Comm& comm,
                                            const std::filesystem::path& directory,
                                            const std::string& split, const Shape& shape,
                                            std::int64_t targets);

}  // namespace halomesh
