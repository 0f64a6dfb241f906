// SPDX-License-Identifier: Apache-2.0
// A temporary directory of a test over MPI: one for all ranks of a communicator.
#pragma once

#include <stdlib.h>

#include <exception>
#include <filesystem>
#include <string>
#include <system_error>

#include "error.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// Rank 0 makes the directory and removes it when all ranks are done. Constructor and destructor
/// are collective over the communicator, which must outlive this object.
class SharedDirectory {
 public:
  explicit SharedDirectory(const Comm& comm) : comm_(comm) {
    std::string name;
    if (comm.rank() == 0) {
      name = (std::filesystem::temp_directory_path() / "halomesh-mpi-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) name.clear();
    }
    path_ = comm.broadcast(name, 0);
    require(!path_.empty(), "no temporary directory can be created",
            "set TMPDIR to one with space");
  }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  ~SharedDirectory() {
    if (std::uncaught_exceptions() == 0) comm_.barrier();
    std::error_code ignored;
    if (comm_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  const Comm& comm_;
  std::filesystem::path path_;
};

}  // namespace halomesh
