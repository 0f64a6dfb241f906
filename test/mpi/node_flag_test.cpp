// SPDX-License-Identifier: Apache-2.0
// A flag per node where ranks can share memory, and a flag per rank where they cannot.
#include "runtime/mpi/node_flag.hpp"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "test/harness/test_comm.hpp"

namespace {

bool refuse_memory = false;

}  // namespace

// The linker takes this definition before the library's.
extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  if (!refuse_memory) return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
  errno = ENOMEM;
  return -1;
}

namespace halomesh {
namespace {

// How many ranks of a node find the flag cleared.
std::int64_t finders(const Comm& node, const NodeFlag& flag) {
  CHECK(flag.get()->load() == 0);
  node.barrier();
  const std::int64_t found = flag.get()->exchange(1) == 0 ? 1 : 0;
  CHECK(flag.get()->load() == 1);
  return node.sum(found);
}

TEST_CASE("NodeFlag: the ranks of a node share one flag") {
  const Comm node = test_world().split_by_node();
  const NodeFlag flag(node);
  REQUIRE(flag.is_shared());
  CHECK(finders(node, flag) == 1);
}

TEST_CASE("NodeFlag: each rank has its own where the first one gets no memory to share") {
  const Comm node = test_world().split_by_node();
  refuse_memory = true;
  {
    const NodeFlag flag(node);
    CHECK_FALSE(flag.is_shared());
    CHECK(finders(node, flag) == node.size());
  }
  refuse_memory = false;
}

}  // namespace
}  // namespace halomesh
