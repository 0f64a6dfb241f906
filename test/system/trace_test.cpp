// SPDX-License-Identifier: Apache-2.0
// The traces that `train` writes: of 16 ranks, of some ranks, and of runs shorter than the window.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "test/harness/trace_reader.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

int count_of(const TraceReader& trace, std::int64_t tid, const std::string& name) {
  int count = 0;
  for (const auto& slice : trace.slices_of(tid)) count += slice.name == name ? 1 : 0;
  return count;
}

TEST_CASE("the trace of 16 ranks has every track, and readers accept it") {
  Scene scene;
  const fs::path file = scene.out / "trace.json.gz", stage = workshop().fresh("stage");
  fs::create_directories(scene.out);
  fs::create_directories(stage);
  scene.ranks = 16;
  scene.options["parts"] = "4x2x1";
  scene.options["batch"] = "2";
  scene.options["stage-dir"] = stage.string();
  scene.options["trace"] = file.string();
  scene.options["trace-steps"] = "3+3";  // the first epoch ends after step 4
  const Outcome outcome = scene.train(3 * kLimitSeconds);
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.text.find("trace of 16 of 16 ranks in " + file.string() + ": steps 3 to 5") !=
        std::string::npos);
  CHECK(outcome.text.find("--trace-steps") == std::string::npos);
  CHECK(nlohmann::json::parse(read_file(scene.out / "run.json")).at("trace") == file.string());

  const TraceReader trace(gunzip(file));
  CHECK_MESSAGE(trace.problems().empty(), listed(trace.problems()));
  CHECK(trace.ranks().size() == 16);
  CHECK(trace.process_name(13).starts_with("rank 13 (replica 1, part 5) "));
  CHECK(trace.other().at("first_step") == 3);
  CHECK(trace.other().at("steps") == 3);
  CHECK(trace.other().at("ranks") == 16);
  CHECK(trace.other().at("dropped_events") == 0);
  CHECK(trace.other().at("started_unix").get<double>() > 1.7e9);
  // Steps on all ranks; what is in them belongs to them.
  CHECK(count_of(trace, 0, "step") == 16 * 3);
  CHECK(count_of(trace, 0, "optimizer") == 16 * 3);
  CHECK(count_of(trace, 0, "forward") > 16 * 3);
  std::set<std::int64_t> steps;
  for (const auto& slice : trace.slices_of(0)) steps.insert(slice.args.at("step").get<int>());
  CHECK(steps == std::set<std::int64_t>{3, 4, 5});
  // A message of each rank of a replica to another at least in forward and backward, each with an
  // arrow, because all ranks are traced.
  const auto messages = trace.slices_of(1);
  CHECK(trace.arrows() >= 16 * 3 * 2);
  CHECK(messages.size() == 2 * trace.arrows());
  for (const auto& slice : messages) {
    CHECK(slice.args.at("bytes").get<int>() > 0);
    CHECK(slice.args.at("peer").get<int>() / 8 == slice.pid / 8);
  }
  CHECK(trace.sums() >= 16 * 3);
  CHECK(trace.slices_of(3).size() >= 16);
  CHECK(trace.counters() == 2 * 3);
  CHECK(count_of(trace, 4, "staging") == 16);
  CHECK(count_of(trace, 4, "evaluation") == 16);
  CHECK(count_of(trace, 4, "checkpoint") == 16);
  CHECK(partial_files(scene.out).empty());
  const auto shares = static_cast<std::uintmax_t>(16 * 3);
  MESSAGE("per rank and step: ", fs::file_size(file) / shares, " bytes, ",
          trace.slices().size() / shares, " slices");
}

TEST_CASE("a trace of some ranks, and of a run that ends within the window") {
  Scene scene;
  const fs::path file = scene.out.string() + "-trace.json.gz";
  scene.options["trace"] = file.string();
  scene.options["trace-steps"] = "3+9";
  scene.options["trace-ranks"] = "2-3,0";
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.text.find("WARNING: the trace has 2 of the 9 steps of --trace-steps 3+9: this run "
                          "ended after 4 steps") != std::string::npos);
  const TraceReader trace(gunzip(file));
  CHECK_MESSAGE(trace.problems().empty(), listed(trace.problems()));
  CHECK(trace.ranks() == std::set<std::int64_t>{0, 2, 3});
  CHECK(count_of(trace, 0, "step") == 3 * 2);
  CHECK(trace.arrows() > 0);  // between 2 and 3; rank 1 is not in the trace
  CHECK(trace.slices_of(1).size() > 2 * trace.arrows());

  // The same command resumes and has nothing to do: the trace stays.
  const std::string before = read_file(file);
  const Outcome again = scene.train();
  CAPTURE(again.text);
  CHECK(again.exit_code == 0);
  CHECK(again.text.find("no trace written to " + file.string()) != std::string::npos);
  CHECK(read_file(file) == before);
}

}  // namespace
}  // namespace halomesh::test
