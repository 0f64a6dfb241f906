// SPDX-License-Identifier: Apache-2.0
// What the targets of a data set, or the classes of its voxels, are called.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// The setting of a checkpoint that has the data_names() of what it was trained on.
inline constexpr const char* kOutputNames = "output-names";

/// The names of `count` targets or classes, as `kind` says ("targets", "classes"), in a data set's
/// dataset.json, with commas between them; empty if it has no such names. They consist of letters,
/// digits and ._+-; other characters become '_'. Collective over `world`.
std::string data_names(const Comm& world, const std::filesystem::path& data, const char* kind,
                       std::size_t count);

/// The names of the `count` targets of a network: those of the data set of --data, or else of what
/// the checkpoint of --checkpoint was trained on, or else those that the network gives to so many;
/// empty if they have none. Collective over `world`.
std::vector<std::string> target_names(const Comm& world, const Options& options,
                                      const NetworkSpec& network, std::size_t count);

/// target_names(), or "target 1", "target 2" and so on.
std::vector<std::string> target_titles(const Comm& world, const Options& options,
                                       const NetworkSpec& network, std::size_t count);

/// The same for `count` classes of voxels: "class 0", the background, and so on, if they have no
/// names.
std::vector<std::string> class_names(const Comm& world, const Options& options,
                                     const NetworkSpec& network, std::size_t count);

}  // namespace halomesh
