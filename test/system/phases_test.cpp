// SPDX-License-Identifier: Apache-2.0
// The bytes that a run reports, against those that the MPI library itself counts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "test/harness/skip.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using Json = nlohmann::json;

/// Has Open MPI write what each rank sends, in files PREFIX.RANK.prof, while it exists.
class Monitoring {
 public:
  explicit Monitoring(const fs::path& prefix) {
    set("pml_monitoring_enable", "2");  // user's messages apart from those inside collectives
    set("pml_monitoring_enable_output", "3");
    set("pml_monitoring_filename", prefix.string());
    set("osc", "^monitoring");  // it refuses windows of shared memory
    set("rmaps_base_oversubscribe", "1");
  }
  Monitoring(const Monitoring&) = delete;
  Monitoring& operator=(const Monitoring&) = delete;
  ~Monitoring() {
    for (const auto& [name, before] : before_)
      before.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), before.c_str(), 1);
  }

 private:
  void set(const std::string& parameter, const std::string& value) {
    const std::string name = "OMPI_MCA_" + parameter;
    before_[name] = environment(name.c_str(), "");
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::map<std::string, std::string> before_;
};

/// Adds one rank's file, which has for each communicator "D  NAME  procs: 0,1,..." and "A2A  rank
/// BYTES bytes  N msgs sent".
std::int64_t split_bytes_in(const fs::path& path) {
  std::istringstream lines(read_file(path));
  std::int64_t sum = 0, others = 0;  // in a communicator made by split(); 0: another
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    std::int64_t rank = 0, bytes = 0;
    if (kind == "D")
      others = line.find(" SPLIT FROM ") == std::string::npos
                   ? 0
                   : std::count(line.begin(), line.end(), ',');
    // The library counts a contribution once for each of the other ranks.
    if (kind == "A2A" && others > 0 && words >> rank >> bytes) sum += bytes / others;
  }
  return sum;
}

struct Run {
  Json phases;                   ///< the only such line
  Json record;                   ///< run.json
  std::int64_t split_bytes = 0;  ///< contributed to collectives of split communicators, all ranks
  int files = 0;
};

/// A run of so many steps without evaluations, all in one epoch.
Run monitored_run(int ranks, const std::string& parts, int steps) {
  Scene scene;
  scene.ranks = ranks;
  scene.data = data_set(32, 64, 4);
  scene.options["parts"] = parts;
  scene.options["batch"] = parts == "1x1x1" ? std::to_string(ranks) : "1";
  scene.options["epochs"] = "0";
  scene.options["steps"] = std::to_string(steps);
  scene.options["evaluate-every"] = "0";
  scene.options["reduction"] = "flat";
  const fs::path prefix = workshop().fresh("messages");
  Outcome outcome;
  {
    const Monitoring monitoring(prefix);
    outcome = scene.train(120);
  }
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  Run run;
  run.record = Json::parse(read_file(scene.out / "run.json"));
  std::istringstream lines(read_file(scene.out / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (Json json = Json::parse(line); json["event"] == "phases") run.phases = std::move(json);
  for (int rank = 0; rank < ranks; ++rank) {
    const fs::path file = prefix.string() + '.' + std::to_string(rank) + ".prof";
    if (!fs::exists(file)) continue;
    run.split_bytes += split_bytes_in(file);
    ++run.files;
  }
  return run;
}

}  // namespace

// Halos are persistent messages, which Open MPI's monitoring does not see when they are started:
// test/mpi counts those.
TEST_CASE("the bytes of gradients are those that the MPI library counts") {
  constexpr int kFew = 2, kMany = 5;
  struct Row {
    int ranks;
    const char* parts;
  };
  int compared = 0;
  for (const Row& row : {Row{4, "1x1x1"}, Row{4, "2x2x1"}, Row{16, "4x4x1"}}) {
    CAPTURE(row.parts);
    const Run few = monitored_run(row.ranks, row.parts, kFew);
    if (few.record["mpi"].get<std::string>().find("Open MPI") == std::string::npos)
      return skip_case("only Open MPI counts messages itself");
    if (few.files == 0) return skip_case("this Open MPI has no component for monitoring");
    REQUIRE(few.files == row.ranks);
    const Run many = monitored_run(row.ranks, row.parts, kMany);
    REQUIRE(many.phases["steps"] == kMany);
    // Gradients are summed on communicators made by split(); the difference of two runs has
    // nothing of what starts and ends them.
    const std::int64_t gradients = many.phases["reduction"]["bytes"].get<std::int64_t>() -
                                   few.phases["reduction"]["bytes"].get<std::int64_t>();
    CHECK(gradients > 0);
    CHECK(gradients == many.split_bytes - few.split_bytes);
    ++compared;
  }
  CHECK(compared == 3);
}

TEST_CASE("each epoch has a line of phases, of its own steps, before its evaluation") {
  const Scene scene;
  const Outcome outcome = scene.train();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  std::string order;
  std::vector<Json> phases;
  std::istringstream lines(read_file(scene.out / "metrics.jsonl"));
  double time = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    order += json["event"].get<std::string>() + ' ';
    if (json["event"] == "phases") phases.push_back(json);
    CHECK(json["time"].get<double>() >= time);
    time = json["time"].get<double>();
  }
  CHECK(order == "step step phases layers eval step step phases layers eval ");
  REQUIRE(phases.size() == 2);
  // An evaluation exchanges halos and reads samples as well, which belong to no step.
  CHECK(phases[0]["halo"] == phases[1]["halo"]);
  CHECK(phases[0]["halo"]["sent_bytes"].get<double>() > 0);
  CHECK(phases[0]["input"]["bytes"] == phases[1]["input"]["bytes"]);
  CHECK(phases[0]["reduction"]["bytes"] == phases[1]["reduction"]["bytes"]);
  CHECK(phases[1]["step"] == 4);
  CHECK(phases[1]["epoch"] == 1);
}

TEST_CASE("run.json says what ran, what it has to compute, and how it ended") {
  Scene scene;
  scene.ranks = 2;
  ::setenv("PJM_JOBID", "4711", 1);
  const Outcome outcome = scene.train();
  ::unsetenv("PJM_JOBID");
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const Json record = Json::parse(read_file(scene.out / "run.json"));
  CHECK(record["nodes"] == 1);
  CHECK(record["job"] == Json({{"scheduler", "pjm"}, {"id", "4711"}}));
  CHECK(record["samples"] == Json({{"training", 8}, {"validation", 4}}));
  CHECK(record["network"]["parameters"].get<double>() > 1000);
  double flops = 0;
  for (const Json& row : record["work"]) flops += row["flops"].get<double>();
  CHECK(flops > 0);
  // A batch of 4.
  CHECK(record["network"]["flops_per_sample"].get<double>() == doctest::Approx(flops / 4));
  CHECK(record["end"]["result"] == "done");
  CHECK(record["end"]["steps"] == 4);
  CHECK(record["end"]["epochs"] == 2);
  CHECK(record["end"]["time"].get<double>() > 1.7e9);
  double in_steps = 0;
  std::istringstream lines(read_file(scene.out / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (const Json json = Json::parse(line); json["event"] == "step")
      in_steps += json["seconds"].get<double>();
  CHECK(in_steps > 0);
  CHECK(record["end"]["seconds"].get<double>() > in_steps);
  CHECK_FALSE(record.contains("trace"));
  CHECK(lines_starting(outcome.text, "what limits: ") == 1);
  CHECK(lines_starting(outcome.text, "load balance ") == 1);
  // Nothing is left to do: no step, no table.
  const Outcome again = scene.train();
  CHECK(again.exit_code == 0);
  CHECK(lines_starting(again.text, "what limits: ") == 0);
  CHECK(Json::parse(read_file(scene.out / "run.json"))["end"]["result"] == "done");
}

}  // namespace halomesh::test
