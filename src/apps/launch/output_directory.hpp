// SPDX-License-Identifier: Apache-2.0
// The outputs of a command: directories, locked against other runs, and files.
// Must not depend on what is written.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/mpi/mpi.hpp"
#include "runtime/posix/directory_lock.hpp"

namespace halomesh {

/// Creates the directory if necessary and locks it on rank 0, which gets the lock; the other ranks
/// get null. `activity` and `option`: see LockTerms. Throws the same Error on every rank if another
/// run has locked the directory or it is not writable. Collective over `world`.
std::unique_ptr<DirectoryLock> hold_directory(const Comm& world,
                                              const std::filesystem::path& directory,
                                              const std::string& activity,
                                              const std::string& option);

/// Checks before the work rather than after it that `file` can be written; changes nothing. Throws
/// the same Error on every rank if it cannot. Collective over `world`.
void check_output_file(const Comm& world, const std::filesystem::path& file);

}  // namespace halomesh
