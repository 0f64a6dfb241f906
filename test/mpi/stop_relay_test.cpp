// SPDX-License-Identifier: Apache-2.0
// A request to stop reaches all ranks, whoever gets it, and however many get it at once.
#include "runtime/mpi/stop_relay.hpp"

#include <doctest/doctest.h>

#include "test/harness/test_comm.hpp"

namespace halomesh {

TEST_CASE("StopRelay: what one rank is asked, all hear") {
  const Comm& world = test_world();
  if (world.size() < 2) return;
  for (int asked = 0; asked < world.size(); ++asked) {
    StopRelay relay(world);
    world.barrier();
    CHECK_FALSE(relay.poll(false));
    world.barrier();
    const bool is_asked = world.rank() == asked;
    int polls = 0;
    while (!relay.poll(is_asked) && !is_asked) ++polls;
    CHECK(polls >= 0);
    relay.finish();
  }
}

TEST_CASE("StopRelay: all may be asked, or none, and some may look no more") {
  const Comm& world = test_world();
  for (const bool all : {true, false}) {
    StopRelay relay(world);
    if (all) relay.poll(true);
    relay.finish();
  }
  StopRelay relay(world);
  if (world.rank() == world.size() - 1) relay.poll(true);  // rank 0 finds it in finish() at last
  relay.finish();
}

}  // namespace halomesh
