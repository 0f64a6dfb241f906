// SPDX-License-Identifier: Apache-2.0
// Summaries of phases: efficiencies, what limits, the table, and the line of metrics.jsonl.
#include "runtime/log/phase_summary.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace halomesh {
namespace {

void set(PhaseSummary& s, PhaseKind kind, const RankSpread& spread) {
  s.kinds[static_cast<std::size_t>(kind)] = spread;
}

/// Steps of 100 ms on 4 ranks as 2 x 2x1x1: 80 ms useful, at most 90 ms on rank 3.
PhaseSummary four_ranks() {
  PhaseSummary s;
  s.epoch = 2;
  s.step = 30;
  s.steps = 10;
  s.mesh = {2, {2, 1, 1}};
  s.batch = 4;
  s.step_s = {0.1, 0.1, 0.1, 0};
  s.useful_s = {0.08, 0.07, 0.09, 3};
  set(s, PhaseKind::kCompute, {0.075, 0.065, 0.085, 3});
  set(s, PhaseKind::kOptimizer, {0.005, 0.005, 0.005, 0});
  set(s, PhaseKind::kHaloWait, {0.0123, 0.005, 0.02, 1});
  set(s, PhaseKind::kOther, {0.0077, 0.005, 0.01, 2});
  s.rows = {{{Phase::kForward, "conv1"}, {0.075, 0.065, 0.085, 3}, 0},
            {{Phase::kHaloWait, "conv1"}, {0.0123, 0.005, 0.02, 1}, 4096}};
  s.halo = {40960, 40960, 80};
  s.reduction = {2e6, 20, 0.004, 0.001};
  s.input = {5e6, 40, 0.01, 0.002};
  s.memory_bytes = {1e8, 9e7, 1.2e8, 2};
  return s;
}

}  // namespace

TEST_CASE("efficiencies are those of POP") {
  const PhaseSummary s = four_ranks();
  CHECK(s.load_balance() == doctest::Approx(0.08 / 0.09));
  CHECK(s.communication_efficiency() == doctest::Approx(0.9));
  CHECK(s.parallel_efficiency() == doctest::Approx(0.8));
  CHECK(PhaseSummary().parallel_efficiency() == 1);  // nothing done, nothing lost
}

TEST_CASE("what limits is named, with its share") {
  PhaseSummary s = four_ranks();
  CHECK(s.limit() == "unequal work: rank 3 computes for 90.0 % of a step, the mean is 80.0 %");
  s.useful_s.max = 0.081;
  CHECK(s.limit() == "waiting for halos takes 12.3 % of a step (at most 20.0 %, on rank 1)");
  set(s, PhaseKind::kReductionWait, {0.013, 0.01, 0.02, 2});
  CHECK(s.limit() ==
        "waiting for sums over ranks takes 13.0 % of a step (at most 20.0 %, on rank 2)");
  set(s, PhaseKind::kInputWait, {0.02, 0.01, 0.03, 2});
  CHECK(s.limit() == "waiting for input takes 20.0 % of a step (at most 30.0 %, on rank 2)");
  set(s, PhaseKind::kPacking, {0.03, 0.03, 0.03, 0});
  CHECK(s.limit().starts_with("packing and starting messages takes 30.0 %"));
  set(s, PhaseKind::kOther, {0.04, 0.04, 0.04, 0});
  CHECK(s.limit().starts_with("waiting for a core that other ranks or programs use takes 40.0 %"));
  for (PhaseKind kind : {PhaseKind::kPacking, PhaseKind::kHaloWait, PhaseKind::kReductionWait,
                         PhaseKind::kInputWait, PhaseKind::kOther})
    set(s, kind, {0.004, 0.004, 0.004, 0});
  CHECK(s.limit() == "computation takes 80.0 % of a step");
}

TEST_CASE("the table has a row per kind that occurs, and names ranks") {
  const std::string text = phase_table(four_ranks(), {"", "", "node0007"});
  CAPTURE(text);
  CHECK(text.find("rank 1 (replica 0, part 1) node0007") != std::string::npos);
  CHECK(text.find("rank 3 (replica 1, part 1)\n") != std::string::npos);
  CHECK(text.find("compute      75.00   65.00   85.00    75.0  rank 3") != std::string::npos);
  CHECK(text.find("input wait") == std::string::npos);
  CHECK(text.find("load balance 0.889, communication efficiency 0.900, parallel efficiency "
                  "0.800\n") != std::string::npos);
  CHECK(text.find("what limits: unequal work") != std::string::npos);
  CHECK(text.find("per step: halos 4.1 kB in 8 messages; gradients 200 kB in 2 sums of 4.00 ms, "
                  "1.00 ms of them waited for; input 500 kB in 4.0 reads at 500 MB/s per rank\n") !=
        std::string::npos);
  CHECK(text.find("memory: 120 MB at most in a process (rank 2)\n") != std::string::npos);
  PhaseSummary full = four_ranks();
  for (RankSpread& kind : full.kinds) kind = {0.01, 0.01, 0.01, 0};
  const std::string longest = phase_table(full);
  CHECK(std::count(longest.begin(), longest.end(), '\n') == 13);
  full.mesh = {1, {1, 1, 1}};
  full.useful_s = {0.02, 0.02, 0.02, 0};
  CHECK(phase_table(full).find("rank") == std::string::npos);
}

TEST_CASE("the line of metrics.jsonl has the documented keys and values") {
  const nlohmann::json json = nlohmann::json::parse(to_json(four_ranks()).dump());
  CHECK(json["event"] == "phases");
  CHECK(json["epoch"] == 2);
  CHECK(json["step"] == 30);
  CHECK(json["steps"] == 10);
  CHECK(json["ranks"] == 4);
  CHECK(json["replicas"] == 2);
  CHECK(json["parts"] == "2x1x1");
  CHECK(json["batch"] == 4);
  CHECK(json["step_seconds"] ==
        nlohmann::json({{"mean", 0.1}, {"min", 0.1}, {"max", 0.1}, {"max_rank", 0}}));
  CHECK_FALSE(json.contains("rows"));
  const nlohmann::json layers = nlohmann::json::parse(layers_json(four_ranks()).dump());
  CHECK(layers["event"] == "layers");
  for (const char* key : {"epoch", "step", "steps"}) CHECK(layers[key] == json[key]);
  REQUIRE(layers["rows"].size() == 2);
  CHECK(layers["rows"][1] == nlohmann::json({{"phase", "halo wait"},
                                             {"layer", "conv1"},
                                             {"kind", "halo wait"},
                                             {"mean", 0.0123},
                                             {"min", 0.005},
                                             {"max", 0.02},
                                             {"max_rank", 1},
                                             {"received_bytes", 4096}}));
  REQUIRE(json["kinds"].size() == kPhaseKinds);
  CHECK(json["kinds"][0]["kind"] == "compute");
  CHECK(json["kinds"][0]["max_rank"] == 3);
  double sum = 0;
  for (const auto& kind : json["kinds"]) sum += kind["mean"].get<double>();
  CHECK(sum == doctest::Approx(0.1));
  CHECK(json["efficiency"]["load_balance"] == 0.88889);
  CHECK(json["efficiency"]["communication"].get<double>() == doctest::Approx(0.9));
  CHECK(json["efficiency"]["parallel"].get<double>() == doctest::Approx(0.8));
  CHECK(json["limit"] == four_ranks().limit());
  CHECK(json["halo"] ==
        nlohmann::json({{"sent_bytes", 40960}, {"received_bytes", 40960}, {"messages", 80}}));
  CHECK(json["reduction"] ==
        nlohmann::json(
            {{"bytes", 2000000}, {"buckets", 20}, {"seconds", 0.004}, {"exposed_seconds", 0.001}}));
  CHECK(json["input"] ==
        nlohmann::json(
            {{"bytes", 5000000}, {"calls", 40}, {"seconds", 0.01}, {"wait_seconds", 0.002}}));
  CHECK(json["memory_bytes"] ==
        nlohmann::json({{"mean", 100000000}, {"max", 120000000}, {"max_rank", 2}}));
}

}  // namespace halomesh
