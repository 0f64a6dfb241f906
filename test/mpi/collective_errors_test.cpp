// SPDX-License-Identifier: Apache-2.0
// Work that fails on some ranks ends on all of them, with one Error.
#include "runtime/mpi/collective_errors.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <thread>

#include "error.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

/// Runs work of which the ranks of `failing` fail; the message that this rank ends with.
std::string run(const Comm& comm, const std::set<int>& failing, bool& stopped_early) {
  stopped_early = false;
  try {
    run_with_collective_errors(comm, [&](const std::function<bool()>& others_failed) {
      if (failing.contains(comm.rank()))
        throw Error(fmt::format("rank {}", comm.rank()), "mend it");
      if (failing.empty()) return;
      // Without the alarm this would take a minute.
      for (int i = 0; i < 60000 && !stopped_early; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        stopped_early = others_failed();
      }
    });
  } catch (const Error& error) {
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  return "done";
}

TEST_CASE("collective errors: if any rank fails, all end soon with the same Error") {
  int compared = 0;
  for (int size = 1; size <= test_world().size(); ++size) {
    const Comm comm = test_world().split(test_world().rank() < size ? 0 : -1, 0);
    if (comm.is_null()) continue;
    bool early = false;
    CHECK(run(comm, {}, early) == "done");
    for (int first = 0; first < size; ++first)
      for (const std::set<int>& failing : {std::set{first}, std::set{first, size - 1}}) {
        CHECK(run(comm, failing, early) == fmt::format("rank {} | mend it", first));
        CHECK(early == !failing.contains(comm.rank()));
        CHECK(run(comm, {}, early) == "done");
        ++compared;
      }
    std::set<int> all;
    for (int r = 0; r < size; ++r) all.insert(r);
    CHECK(run(comm, all, early) == "rank 0 | mend it");
    ++compared;
  }
  CHECK(compared > 0);
}

TEST_CASE("collective errors: texts of all ranks in rank order, or the first Error") {
  const Comm& world = test_world();
  const auto texts = on_every_rank(world, [&] { return fmt::format("text {}", world.rank()); });
  REQUIRE(static_cast<int>(texts.size()) == world.size());
  for (int r = 0; r < world.size(); ++r)
    CHECK(texts[static_cast<std::size_t>(r)] == fmt::format("text {}", r));
  CHECK_THROWS_WITH_AS(on_every_rank(world,
                                     [&]() -> std::string {
                                       if (world.rank() == 0 && world.size() > 1) return "fine";
                                       throw Error(fmt::format("rank {}", world.rank()));
                                     }),
                       fmt::format("rank {}", world.size() > 1 ? 1 : 0).c_str(), Error);
  CHECK(on_first_rank(world, [&] { return fmt::format("from {}", world.rank()); }) == "from 0");
}

}  // namespace
}  // namespace halomesh
