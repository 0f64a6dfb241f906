// SPDX-License-Identifier: Apache-2.0
// The directory that checkpoints lie in: their names, the newest of them, and which ones stay.
// Local; opens no checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace halomesh {

/// "step-000000512.h5".
std::string checkpoint_name(std::int64_t step);

/// The checkpoint of the highest step, by name; files that are not checkpoints by name, such as
/// those that a killed run left half-written, do not count. Empty when there is none or no such
/// directory. Throws Error when the directory cannot be listed.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

/// All of them, newest first.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory);

/// Adds `.damaged` to a checkpoint's name (`.damaged-2` and so on where that is taken), so that it
/// is no checkpoint by name any more. Returns the new path. Throws Error.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

/// Makes the directory and removes the half-written files of killed runs from it. Returns it.
const std::filesystem::path& prepare_checkpoint_directory(const std::filesystem::path& directory);

/// See save_checkpoint(): what becomes of the other checkpoints once that of `step` is whole.
void retire_checkpoints(const std::filesystem::path& directory, std::int64_t step, int keep);

}  // namespace halomesh
