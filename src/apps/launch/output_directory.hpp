// SPDX-License-Identifier: Apache-2.0
// What a command writes to: directories, held against other runs, and files.
// Must not depend on what is written.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/mpi/mpi.hpp"
#include "runtime/posix/directory_lock.hpp"

namespace halomesh {

/// Makes the directory if need be and locks it on rank 0, which gets the lock; the others get null.
/// `activity` and `option`: see LockTerms. Throws the same Error on every rank when another run has
/// the directory or it cannot be written to. Collective over `world`.
std::unique_ptr<DirectoryLock> hold_directory(const Comm& world,
                                              const std::filesystem::path& directory,
                                              const std::string& activity,
                                              const std::string& option);

/// Throws the same Error on every rank when `file` cannot be written, which is found out before the
/// work rather than after it; leaves everything as it is. Collective over `world`.
void check_output_file(const Comm& world, const std::filesystem::path& file);

}  // namespace halomesh
