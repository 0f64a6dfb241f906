// SPDX-License-Identifier: Apache-2.0
// The outputs of a command: directories, locked against other runs, and files.
// Must not depend on the content of the files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/mpi/mpi.hpp"
#include "runtime/posix/directory_lock.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Creates the directory if necessary and locks it on rank 0, which gets the lock; the other ranks
/// get null. `activity` and `option` are those of LockTerms. Throws one Error on every rank if
/// another run has locked the directory or it is not writable, and UsageError if it lies among the
/// samples of a data set or the checkpoints of a run. Collective over `world`.
std::unique_ptr<DirectoryLock> hold_directory(const Comm& world,
                                              const std::filesystem::path& directory,
                                              const std::string& activity,
                                              const std::string& option);

/// Throws UsageError on every rank where an entry of `directory`, the --out of a command, has a
/// name that starts with `mark`, so that it holds `what`, such as "one training run". Collective
/// over `world`.
void require_other_use(const Comm& world, const std::filesystem::path& directory,
                       const std::string& mark, const std::string& what);

/// Throws UsageError where the path that the option `output` names a file that another option
/// names, lies among the samples of a data set or the checkpoints of a run, or is another file of a
/// training run. Nothing is checked of an empty path.
void check_output(const Options& options, const std::string& output);

/// As above, once for all ranks, which throw the same error. Collective over `world`.
void check_output(const Comm& world, const Options& options, const std::string& output);

/// As above, and checks before the work, rather than after it, that the path, which names a file,
/// can be written; changes nothing. Throws the same error on every rank. Collective over `world`.
void check_output_file(const Comm& world, const Options& options, const std::string& output);

}  // namespace halomesh
