// SPDX-License-Identifier: Apache-2.0
// Output directories: see output_directory.hpp.
#include "src/apps/launch/output_directory.hpp"

#include <iostream>

#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/atomic_file.hpp"

namespace halomesh {

std::unique_ptr<DirectoryLock> hold_directory(const Comm& world,
                                              const std::filesystem::path& directory,
                                              const std::string& activity,
                                              const std::string& option) {
  std::unique_ptr<DirectoryLock> lock;
  on_first_rank(world, [&] {
    LockTerms terms{activity, option,
                    [](const std::string& text) { std::cerr << "note: " + text + '\n'; }};
    lock = std::make_unique<DirectoryLock>(directory, std::move(terms));
    return std::string();
  });
  return lock;
}

void check_output_file(const Comm& world, const std::filesystem::path& file) {
  on_first_rank(world, [&] {
    require_writable(file);
    return std::string();
  });
}

}  // namespace halomesh
