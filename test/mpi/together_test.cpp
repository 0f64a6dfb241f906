// Work that fails on some ranks ends on all of them, with one Error.
// Knows nothing of what ranks do together.
#include "runtime/together.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <thread>

#include "error.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

/// Runs together() where the ranks of `failing` throw; the message that this rank ends with.
std::string run(const Comm& comm, const std::set<int>& failing, bool& stopped_early) {
  stopped_early = false;
  try {
    together(comm, [&](const std::function<bool()>& others_failed) {
      if (failing.contains(comm.rank())) throw Error(cat("rank ", comm.rank()), "mend it");
      if (failing.empty()) return;
      // Without the alarm this would take a minute.
      for (int i = 0; i < 60000 && !stopped_early; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        stopped_early = others_failed();
      }
    });
  } catch (const Error& error) {
    return cat(error.what(), " | ", error.hint());
  }
  return "done";
}

TEST_CASE("together: whoever fails, all ranks end soon and say the same") {
  int compared = 0;
  for (int size = 1; size <= test_world().size(); ++size) {
    const Comm comm = test_world().split(test_world().rank() < size ? 0 : -1, 0);
    if (comm.is_null()) continue;
    bool early = false;
    CHECK(run(comm, {}, early) == "done");
    for (int first = 0; first < size; ++first)
      for (const std::set<int>& failing : {std::set{first}, std::set{first, size - 1}}) {
        CHECK(run(comm, failing, early) == cat("rank ", first, " | mend it"));
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

TEST_CASE("together: texts of all ranks come in their order, or the first Error does") {
  const Comm& world = test_world();
  const auto texts = on_every_rank(world, [&] { return cat("text ", world.rank()); });
  REQUIRE(static_cast<int>(texts.size()) == world.size());
  for (int r = 0; r < world.size(); ++r)
    CHECK(texts[static_cast<std::size_t>(r)] == cat("text ", r));
  CHECK_THROWS_WITH_AS(on_every_rank(world,
                                     [&]() -> std::string {
                                       if (world.rank() == 0 && world.size() > 1) return "fine";
                                       throw Error(cat("rank ", world.rank()));
                                     }),
                       cat("rank ", world.size() > 1 ? 1 : 0).c_str(), Error);
  CHECK(on_first_rank(world, [&] { return cat("from ", world.rank()); }) == "from 0");
}

}  // namespace
}  // namespace halomesh
