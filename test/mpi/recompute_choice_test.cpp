// SPDX-License-Identifier: Apache-2.0
// The choice of --recompute auto: by the tightest memory, the same on every rank.
#include "runtime/step/recompute_choice.hpp"

#include <doctest/doctest.h>

#include <string>

#include "test/harness/mpi_for_comms.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kGb = 1'000'000'000;

TEST_CASE("recomputation is chosen where a step would not fit and it saves something") {
  CHECK_FALSE(should_recompute({1000, 600}, 2000));
  CHECK(should_recompute({1000, 600}, 800));
  CHECK(should_recompute({1000, 600}, 500));  // the best that can be done
  CHECK_FALSE(should_recompute({1000, 1000}, 800));
  // A prediction may be a few percent short.
  CHECK(should_recompute({1000, 600}, 1040));
  CHECK_FALSE(should_recompute({1000, 600}, 1060));
  CHECK(should_recompute({1000, 600}, 0));
}

TEST_CASE("all ranks choose recomputation by the node or process with the least room") {
  for_comms("choosing", {1, 2, 3, 4}, [](const Comm& comm, Findings& findings) {
    const auto expect = [&](const RecomputeChoice& choice, bool on, std::int64_t kept,
                            std::int64_t available, std::int64_t ranks, const char* what) {
      findings.expect(choice.recomputes == on && choice.need.kept == kept &&
                          choice.need.recomputed == kept / 2 && choice.available == available &&
                          choice.ranks == ranks,
                      [&] { return std::string(what) + ": " + to_text(choice); });
    };
    const std::int64_t n = comm.size();  // on one node
    const MemoryNeed need{4 * kGb, 2 * kGb};
    expect(choose_recompute(comm, need, {5 * n * kGb, 90 * kGb}), false, 4 * n * kGb, 5 * n * kGb,
           n, "a node with room");
    expect(choose_recompute(comm, need, {3 * n * kGb, 90 * kGb}), true, 4 * n * kGb, 3 * n * kGb, n,
           "a node without room");
    // Ranks see the node at different times: the least counts.
    expect(choose_recompute(comm, need, {(3 * n + comm.rank()) * kGb, 90 * kGb}), true, 4 * n * kGb,
           3 * n * kGb, n, "a node that fills");
    // The last rank needs more than others, and has a limit of its own.
    const bool last = comm.rank() == n - 1;
    expect(choose_recompute(comm, last ? MemoryNeed{6 * kGb, 3 * kGb} : need,
                            {90 * n * kGb, last ? 5 * kGb : 50 * kGb}),
           true, 6 * kGb, 5 * kGb, 1, "a process without room");
  });
}

TEST_CASE("what is chosen is said with its numbers") {
  CHECK(to_text({false, {812 * kGb / 1000, kGb / 2}, 14 * kGb, 2}) ==
        "--recompute auto: off: the 2 ranks of a node need another 812 MB, 14000 MB are available");
  CHECK(to_text({true, {4 * kGb, 2 * kGb}, 3 * kGb, 1}) ==
        "--recompute auto: on: a process would need another 4000 MB, 3000 MB are available; "
        "recomputing, it needs 2000 MB");
  CHECK(to_text({true, {4 * kGb, 2 * kGb}, 4 * kGb, 1}) ==
        "--recompute auto: on: a process would need another 4000 MB, 4000 MB are available (too "
        "close for a prediction); recomputing, it needs 2000 MB");
  CHECK(to_text({true, {4 * kGb, 2 * kGb}, kGb, 4}) ==
        "--recompute auto: on: the 4 ranks of a node would need another 4000 MB, 1000 MB are "
        "available; recomputing, they need 2000 MB, which may not fit either");
  CHECK(to_text({false, {4 * kGb, 4 * kGb}, kGb, 1}) ==
        "--recompute auto: off: a process needs another 4000 MB, 1000 MB are available, and "
        "recomputing would save nothing");
}

}  // namespace
}  // namespace halomesh
