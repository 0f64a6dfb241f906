// SPDX-License-Identifier: Apache-2.0
// Reads machines of forecasts from files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/apps/forecast/machine.hpp"

namespace halomesh {

/// Reads a machine, derived for its own ranks per node. NAME.ini has lines `NAME = VALUE`; each
/// number is followed by `# ORIGIN: SOURCE` (measured, published, derived or assumed). NAME.json is
/// as `bench --calibrate` writes it. Throws UsageError with file and line (or key) if the file is
/// unreadable, a name is unknown, or a number is missing, out of bounds or without origin.
Machine read_machine(const std::filesystem::path& file, DataType precision = DataType::kFloat32);

/// Adds the kernel times of a file of `bench --calibrate`. If they come from another CPU, they are
/// scaled by the ratio of the ranks' peaks in the machine's precision, and the machine's notes say
/// so. Throws UsageError as read_machine() does.
void add_kernels(Machine& machine, const std::filesystem::path& file);

/// The names of the machines in `directory`/machines, sorted.
std::vector<std::string> machine_names(const std::filesystem::path& directory);

/// A file to start from: each line of a whole machine, with the values of `example` and units.
std::string machine_template(const Machine& example);

/// The machine of this name, or of a file if `machine` contains '/' or ends in .ini or .json.
/// Its notes name the numbers that stand in for others. Throws UsageError for an unknown name and
/// names the nearest.
Machine load_machine(const std::string& machine, const std::filesystem::path& directory,
                     DataType precision = DataType::kFloat32);

}  // namespace halomesh
