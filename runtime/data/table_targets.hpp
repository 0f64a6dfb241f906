// SPDX-License-Identifier: Apache-2.0
// Samples of one data set whose targets are elsewhere: scalars in a table of their own, labels in
// arrays, or nowhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/data_source.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/dataset_files.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// A table of numbers, a row for each sample.
struct TargetTable {
  std::vector<std::string> samples{};  ///< the names of the rows' samples; empty: in their order
  std::vector<std::string> titles{};   ///< one for each number of a row; empty: unknown
  std::vector<float> numbers{};        ///< row by row
};

/// Reads a text of rows of `targets` numbers, or of a name and so many numbers, between commas,
/// semicolons, tabs or spaces. A first line of other words, or one behind #, has titles. Throws
/// Error naming `path` and the line.
TargetTable parse_table(const std::string& text, const std::string& path,
                        const TargetSpec& targets);

/// Collective. Gives `samples`, which have no targets, those of the table `source.targets`: in
/// DIR/SPLIT, in DIR, or as the path says. Throws Error on every rank for a sample without a row,
/// or if rows without names are not as many as samples.
std::unique_ptr<const Dataset> with_table(const Comm& comm, std::unique_ptr<const Dataset> samples,
                                          const DataSource& source, const std::string& split,
                                          const TargetSpec& targets);

/// Collective. Gives `samples`, which have no targets, the labels in .npy files of integers: those
/// of one sample or several to a file, in the order of the samples. Throws Error on every rank
/// unless there is a label for each voxel.
std::unique_ptr<const Dataset> with_labels(const Comm& comm, std::unique_ptr<const Dataset> samples,
                                           DatasetFiles labels, const TargetSpec& targets);

/// The table that `source` names.
std::filesystem::path table_path(const DataSource& source, const std::string& split);

/// Gives `samples`, which have no targets, such of 0; has_truth() is then false.
std::unique_ptr<const Dataset> without_truth(std::unique_ptr<const Dataset> samples,
                                             const TargetSpec& targets);

}  // namespace halomesh
