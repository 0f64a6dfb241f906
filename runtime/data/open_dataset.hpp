// SPDX-License-Identifier: Apache-2.0
// Opens a split of a data set in any supported format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/data/data_source.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "shape.hpp"
#include "src/nn/loss.hpp"

namespace halomesh {

/// Collective over `comm`. Opens the split that `source.directory` holds in one of these formats
/// (hidden files aside); every sample has shape `shape` and `targets`, a number of scalars or
/// labels of so many classes:
///   directory/SPLIT-NNNNN.h5      an archive
///   directory/SPLIT/*.tfrecord*   TFRecord, plain or gzip, one record per file or many
///   directory/SPLIT/*.h5, *.hdf5  HDF5 with samples (x, y or labels, or the datasets that `source`
///                                 names), one universe (full, unitPar) or, as in the DeepCAM
///                                 benchmark, an image and its labels (climate/data,
///                                 climate/labels_0), with directory/stats.h5
///   directory/SPLIT/*.npy         arrays of one sample or several, with a table of their targets
///                                 or arrays of their labels
/// Files are in the order of their names, and sample numbers follow them. Throws one Error on every
/// rank if there is no such file, files are of two formats, or one is damaged or has another sample
/// size or other targets.
std::unique_ptr<const Dataset> open_dataset(const Comm& comm, const DataSource& source,
                                            const std::string& split, const Shape& shape,
                                            const TargetSpec& targets);

/// Collective. Opens samples for predictions: where they have no targets, Dataset::has_truth() is
/// false. The split may be "", for the files of the directory itself, which may also be one file.
std::unique_ptr<const Dataset> open_inputs(const Comm& comm, const DataSource& source,
                                           const std::string& split, const Shape& shape,
                                           const TargetSpec& targets);

/// Collective. The type of the values that readers of a split deliver.
DataType type_of_samples(const Comm& comm, const DataSource& source, const std::string& split);

/// The targets for which a network with this loss and output is trained: if the loss has labels, a
/// class for each channel of the output; otherwise scalars.
TargetSpec targets_of(const Loss& loss, const Shape& output);

}  // namespace halomesh
