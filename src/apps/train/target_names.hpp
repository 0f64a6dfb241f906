// SPDX-License-Identifier: Apache-2.0
// What the targets of a data set, or the classes of its voxels, are called.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/step/evaluator.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// The names of the `count` targets of the data set of --data: from its dataset.json, or those that
/// the network gives to so many; empty if they have no names. Names consist of letters, digits and
/// ._+-; other characters become '_'. Collective over `world`.
std::vector<std::string> target_names(const Comm& world, const Options& options,
                                      const NetworkSpec& network, std::size_t count);

/// target_names(), or "target 1", "target 2" and so on.
std::vector<std::string> target_titles(const Comm& world, const Options& options,
                                       const NetworkSpec& network, std::size_t count);

/// The same for `count` classes of voxels: "class 0", the background, and so on, if they have no
/// names.
std::vector<std::string> class_names(const Comm& world, const Options& options,
                                     const NetworkSpec& network, std::size_t count);

/// Prints a warning of classes without a voxel in the split. Local.
void warn_of_absent_classes(const Options& options, const std::string& split,
                            const std::vector<std::string>& names, const Evaluation& result);

}  // namespace halomesh
