// SPDX-License-Identifier: Apache-2.0
// What the targets of a data set are called.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/mpi/mpi.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// The names of the targets of the data set of --data: from its dataset.json, or those of the
/// CosmoFlow benchmark if the network of `model` is CosmoFlow with four targets; empty if they have
/// no names. Names consist of letters, digits and ._+-; other characters become '_'. Collective
/// over `world`.
std::vector<std::string> target_names(const Comm& world, const Options& options,
                                      const Options& model);

/// target_names(), or "target 1", "target 2" and so on.
std::vector<std::string> target_titles(const Comm& world, const Options& options,
                                       const Options& model);

}  // namespace halomesh
