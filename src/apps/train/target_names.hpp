// SPDX-License-Identifier: Apache-2.0
// The names of a data set's targets, or of the classes of its voxels.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/step/evaluator.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// The setting of a checkpoint with the data_names() of its training data.
inline constexpr const char* kOutputNames = "output-names";

/// The names of `count` targets or classes, as `kind` says ("targets", "classes"), from a data
/// set's dataset.json, separated by commas; empty if it has none. They consist of letters, digits
/// and ._+-; other characters become '_'. Collective over `world`.
std::string data_names(const Comm& world, const std::filesystem::path& data, const char* kind,
                       std::size_t count);

/// The names of the `count` targets of a network: those of the data set of --data, or else of the
/// training data of --checkpoint, or else the network's names for this number; empty if they have
/// none. Collective over `world`.
std::vector<std::string> target_names(const Comm& world, const Options& options,
                                      const NetworkSpec& network, std::size_t count);

/// target_names(), or "target 1", "target 2" and so on.
std::vector<std::string> target_titles(const Comm& world, const Options& options,
                                       const NetworkSpec& network, std::size_t count);

/// The names of `count` classes of voxels likewise; without names they are "class 0", the
/// background, and so on.
std::vector<std::string> class_names(const Comm& world, const Options& options,
                                     const NetworkSpec& network, std::size_t count);

/// The names of the labels of samples, and of their classes.
struct LabelNames {
  std::vector<std::string> labels, classes;
};
/// The names of a loss with sample_classes(): "class" and class_names(), or, of several labels,
/// target_titles() and "0" and "1". Collective over `world`.
LabelNames label_names(const Comm& world, const Options& options, const NetworkSpec& network,
                       const Loss& loss);

/// Prints a warning of a class without a voxel: `where` there is none, and `what` follows. Local.
void warn_of_absent_class(const std::string& where, const std::string& name, std::size_t number,
                          const char* what);
/// Warns of classes without a voxel in the split. Local.
void warn_of_absent_classes(const Options& options, const std::string& split,
                            const std::vector<std::string>& names, const Evaluation& result);

}  // namespace halomesh
