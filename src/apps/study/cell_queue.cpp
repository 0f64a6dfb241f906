// SPDX-License-Identifier: Apache-2.0
// Hands out the cells of a study: see cell_queue.hpp.
#include "src/apps/study/cell_queue.hpp"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <utility>

#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/descriptor.hpp"
#include "system_error.hpp"

namespace halomesh {

CellQueue::CellQueue(const Comm& world, std::filesystem::path directory)
    : directory_(std::move(directory)) {
  on_first_rank(world, [&] {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    return std::string();
  });
}

bool CellQueue::take(const Comm& group, std::int64_t cell) const {
  const std::string taken = on_first_rank(group, [&] {
    const std::filesystem::path file = directory_ / std::to_string(cell);
    const Descriptor created(
        ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));  // NOLINT: mode
    if (created.get() < 0 && errno != EEXIST)
      throw system_error("create", file, errno, "give an --out directory that you may write to");
    return std::string(created.get() < 0 ? "no" : "yes");
  });
  return taken == "yes";
}

void CellQueue::remove() const {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

}  // namespace halomesh
