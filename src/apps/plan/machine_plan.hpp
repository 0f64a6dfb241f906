// SPDX-License-Identifier: Apache-2.0
// Forecasts by `plan --machine`: all meshes of a job on a machine, as a table and as JSON.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "src/apps/options/options.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// Declares the options of `plan --machine`.
void add_machine_options(Options& options);

/// True if the options ask for a forecast instead of a geometry table.
bool wants_machine(const Options& options);

/// Prints the requested forecast, or writes the platform. `jobscripts` is the directory with
/// machines/. Throws UsageError as MeshSearch and read_machine() do, and if no mesh fits the
/// memory.
void plan_on_machine(std::ostream& out, const Options& options, const Model& model,
                     const std::filesystem::path& jobscripts);

}  // namespace halomesh
