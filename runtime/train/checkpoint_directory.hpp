// SPDX-License-Identifier: Apache-2.0
// The directory of checkpoints: their names, the newest one, and which ones to keep. Local; opens
// no checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace halomesh {

/// The name of a step's checkpoint, such as "step-000000512.h5".
std::string checkpoint_name(std::int64_t step);

/// The checkpoint with the highest step in its name; files with other names, such as partial files
/// of killed runs, are ignored. Empty if there is no checkpoint or no such directory. Throws Error
/// if the directory cannot be listed.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

/// All checkpoints, newest first.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory);

/// Adds `.damaged` to a checkpoint's name (`.damaged-2` and so on if that exists), so that it no
/// longer counts as a checkpoint. Returns the new path. Throws Error if it cannot be renamed.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

/// Creates the directory and removes the partial files of killed runs from it. Returns it.
const std::filesystem::path& prepare_checkpoint_directory(const std::filesystem::path& directory);

/// Removes or renames other checkpoints once that of `step` is complete; see save_checkpoint().
void retire_checkpoints(const std::filesystem::path& directory, std::int64_t step, int keep);

}  // namespace halomesh
