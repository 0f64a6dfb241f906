// SPDX-License-Identifier: Apache-2.0
// The text of a timeline keeps the rules of the readers of traces, and is small.
#include "runtime/trace/timeline_text.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "runtime/trace/gzip.hpp"
#include "runtime/trace/traced_ranks.hpp"
#include "test/harness/trace_reader.hpp"
#include "test/harness/traced_step.hpp"

namespace halomesh {
namespace {

using test::TraceReader;
using Kind = TimelineEvent::Kind;

std::string whole(const TimelineFrame& frame, const std::vector<TimelineRank>& ranks) {
  std::string text = test::made_up_opening(frame.traced);
  for (const TimelineRank& rank : ranks) text += timeline_text(frame, rank);
  return text + "\n]}\n";
}

TEST_CASE("slices nest, arrows have both ends, and sums pair") {
  const TimelineFrame frame{8, 4, {0, 1, 2, 3, 4, 5, 6, 7}, 11, true};
  std::vector<TimelineRank> ranks;
  for (const int rank : frame.traced) ranks.push_back(test::made_up_rank(rank, 4, 11, 3));
  const TraceReader trace(whole(frame, ranks));
  CHECK_MESSAGE(trace.problems().empty(), test::listed(trace.problems()));
  CHECK(trace.arrows() == 8 * 3 * 24);
  CHECK(trace.sums() == 8 * 3 * 6);
  CHECK(trace.counters() == 2 * 3);
  CHECK(trace.slices_of(0).size() == 8 * 3 * 87);
  CHECK(trace.slices_of(1).size() == 8 * 3 * 48);
  CHECK(trace.slices_of(3).size() == 8 * 3);
  CHECK(trace.furthest_back_ns() < 0);
  CHECK(trace.process_name(5) == "rank 5 (replica 1, part 1) node1");
}

TEST_CASE("slices that begin together, are empty, or have odd names stay in order") {
  // Recorded in order of their ends: the inner one first.
  const TimelineRank rank{0,
                          "a \"node\"",
                          {{Kind::kPhase, Phase::kHaloPack, 0, 0, "a\\\"b", 10, 20, 0, 0, 1},
                           {Kind::kPhase, Phase::kHaloWait, 0, 0, "", 10, 20, 0, 0, 1},
                           {Kind::kPhase, Phase::kForward, 0, 0, "", 20, 20, 0, 0, 1},
                           {Kind::kPhase, Phase::kLoss, 0, 0, "", 20, 30, 0, 0, 1},
                           {Kind::kPhase, Phase::kStep, 0, 0, "", 10, 30, 0, 0, 1},
                           {Kind::kSend, Phase::kOther, 0, 3, "t", 12, 12, 0, 8, 1},
                           {Kind::kSend, Phase::kOther, 0, 4, "t", 12, 19, 0, 8, 1},
                           {Kind::kReceive, Phase::kOther, 0, 3, "t", 20, 20, 20, 8, 1},
                           {Kind::kReceive, Phase::kOther, 0, 4, "t", 20, 29, 29, 8, 1}},
                          false,
                          1};
  const TraceReader trace(whole({1, 1, {0}, 1, true}, {rank}));
  CHECK_MESSAGE(trace.problems().empty(), test::listed(trace.problems()));
  REQUIRE(trace.slices_of(0).size() == 5);
  CHECK(trace.slices_of(0)[0].name == "step");
  CHECK(trace.slices_of(0)[1].name == "halo wait");
  CHECK(trace.slices_of(0)[2].name == "halo pack");
  CHECK(trace.slices_of(0)[2].args.at("layer") == "a\\\"b");
  CHECK(trace.arrows() == 2);
  CHECK(trace.process_name(0) == "rank 0 (replica 0, part 0) a \"node\"");
}

TEST_CASE("messages from or to other ranks have no arrow, nor have those of a damaged trace") {
  TimelineFrame frame{8, 4, {0, 1}, 1, true};
  const std::vector<TimelineRank> ranks = {test::made_up_rank(0, 4, 1, 2),
                                           test::made_up_rank(1, 4, 1, 2)};
  const TraceReader some(whole(frame, ranks));
  CHECK_MESSAGE(some.problems().empty(), test::listed(some.problems()));
  CHECK(some.arrows() == 2 * 12 * 2);  // 0 -> 1 and 1 -> 0
  frame.arrows = false;
  const TraceReader none(whole(frame, ranks));
  CHECK_MESSAGE(none.problems().empty(), test::listed(none.problems()));
  CHECK(none.arrows() == 0);
  CHECK(none.slices_of(1).size() == some.slices_of(1).size());
}

TEST_CASE("the trace of 8192 ranks is below 30 MB by default") {
  const MeshShape mesh{512, {4, 4, 1}};
  const auto begin = std::chrono::steady_clock::now();
  const auto size_of_trace = [&](const std::vector<int>& ranks, int measured_every) {
    const TimelineFrame frame{mesh.ranks(), mesh.parts.count(), ranks, 5, true};
    double bytes = 0;
    for (std::size_t i = 0; i < ranks.size(); i += static_cast<std::size_t>(measured_every))
      bytes += measured_every *
               static_cast<double>(
                   gzip_piece(
                       timeline_text(frame, test::made_up_rank(ranks[i], mesh.parts.count(), 5, 3)))
                       .bytes.size());
    return bytes;
  };
  std::vector<int> chosen = default_trace_ranks(mesh);
  for (const int slow : {100, 2000, 5000, 8000}) chosen.push_back(slow);
  std::sort(chosen.begin(), chosen.end());
  const double by_default = size_of_trace(chosen, 1);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double all = size_of_trace(parse_trace_ranks("all", mesh.ranks()), 64);
  MESSAGE(chosen.size() << " tracks of 3 steps: " << by_default * 1e-6 << " MB, made in " << seconds
                        << " s; all 8192: " << all * 1e-6 << " MB");
  CHECK(chosen.size() == 36);
  CHECK(by_default > 100'000);
  CHECK(by_default <= 30e6);
}

}  // namespace
}  // namespace halomesh
