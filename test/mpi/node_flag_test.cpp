// SPDX-License-Identifier: Apache-2.0
// A flag per node where MPI can share memory, and a flag per rank where it cannot.
#include <doctest/doctest.h>
#include <mpi.h>

#include "runtime/mpi/mpi.hpp"
#include "test/harness/test_comm.hpp"

namespace {

bool fail_shared_windows = false;

}  // namespace

// By MPI's profiling interface this definition comes before the library's.
extern "C" int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                                       void* memory, MPI_Win* window) {
  if (fail_shared_windows) return MPI_ERR_NO_MEM;
  return PMPI_Win_allocate_shared(size, unit, info, comm, memory, window);
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

TEST_CASE("NodeFlag: each rank has its own where shared memory cannot be allocated") {
  const Comm node = test_world().split_by_node();
  fail_shared_windows = true;
  {
    const NodeFlag flag(node);
    CHECK_FALSE(flag.is_shared());
    CHECK(finders(node, flag) == node.size());
  }
  fail_shared_windows = false;
}

}  // namespace
}  // namespace halomesh
