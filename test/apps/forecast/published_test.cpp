// SPDX-License-Identifier: Apache-2.0
// Forecasts beside published measurements: each is predicted from others than itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "models/cosmoflow.hpp"
#include "src/apps/forecast/machine_file.hpp"
#include "src/apps/forecast/measured_runs.hpp"
#include "src/apps/forecast/run_forecast.hpp"
#include "src/apps/forecast/torus_collectives.hpp"

namespace halomesh {
namespace {

std::filesystem::path machines() {
  const char* root = std::getenv("HALOMESH_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  return std::filesystem::path(root != nullptr ? root : ".") / "jobscripts/machines";
}

// The published programs run one rank per node and reduce in blocking calls.
Machine published_machine(const char* name) {
  Machine machine = read_machine(machines() / (std::string(name) + ".ini"));
  machine.set({"poll-ms", 0, Origin::kAssumed, "blocking reductions", "test"});
  machine.derive(1);
  return machine;
}

double error_of(double predicted, double measured) { return predicted / measured - 1; }

TEST_CASE("each published step on Fugaku from the two others") {
  const Model model = make_cosmoflow({});
  const Machine machine = published_machine("fugaku");
  const std::vector<MeasuredRun> runs = read_runs(machines() / "runs-fugaku-v0.7.csv");
  REQUIRE(runs.size() == 3);
  double ours = 0, same = 0, amdahl = 0;
  for (std::size_t left_out = 0; left_out < runs.size(); ++left_out) {
    std::vector<MeasuredRun> known = runs;
    known.erase(known.begin() + static_cast<std::ptrdiff_t>(left_out));
    const MeasuredRun& wanted = runs[left_out];
    const Machine fitted = fit_to_runs(machine, model, known);
    const double error = error_of(predicted_step_s(fitted, model, wanted), wanted.step_s);
    // The rivals: the step of the other run with the nearest number of ranks, and the same divided
    // by the ratio of operations per rank.
    const MeasuredRun& base = known[0];
    const double parts = static_cast<double>(wanted.mesh.parts.count()) /
                         static_cast<double>(base.mesh.parts.count());
    const double same_error = error_of(base.step_s, wanted.step_s);
    const double amdahl_error = error_of(base.step_s / parts, wanted.step_s);
    MESSAGE(wanted.label << ": " << 100 * error << " %, same step " << 100 * same_error
                         << " %, by operations " << 100 * amdahl_error << " %, overhead "
                         << fitted.value("step-overhead-ms") << " ms");
    CHECK(std::abs(error) <= 0.10);
    ours += std::abs(error), same += std::abs(same_error), amdahl += std::abs(amdahl_error);
  }
  CHECK(ours < same);
  CHECK(ours < amdahl);
}

TEST_CASE("published steps on twice or four times the nodes") {
  struct Row {
    const char* machine;
    double ranks, step_ms, more_ranks, more_ms;
  };
  const std::vector<Row> rows = {{"Cori KNL", 512, 483.2, 1024, 527.5},
                                 {"Piz Daint", 128, 335.7, 256, 321.5},
                                 {"ABCI", 512, 35.8, 2048, 39.2}};
  double ours = 0, same = 0;
  for (const Row& row : rows) {
    const Straggling fitted = fit_straggling({{row.ranks, row.step_ms * 1e-3}});
    const double error = error_of(fitted.step_s(row.more_ranks), row.more_ms * 1e-3);
    const double same_error = error_of(row.step_ms, row.more_ms);
    MESSAGE(std::string(row.machine)
            << ": " << 100 * error << " %, same step " << 100 * same_error << " %");
    CHECK(std::abs(error) <= 0.10);
    ours += std::abs(error), same += std::abs(same_error);
  }
  CHECK(ours < same);
}

TEST_CASE("weak scaling to many nodes from three small runs") {
  struct Row {
    const char* machine;
    std::vector<std::pair<double, double>> known;
    double ranks, step_ms;
  };
  // github.com/sparticlesteve/cosmoflow-benchmark, notebooks: ms per step.
  const std::vector<Row> rows = {
      {"KNL, real data", {{2, 289.5}, {4, 293.2}, {8, 295.5}}, 64, 303.4},
      {"KNL, dummy data", {{2, 285.6}, {4, 292.9}, {8, 295.5}}, 64, 303.7},
      {"Cori V100, real data", {{8, 36.2}, {16, 37.1}, {32, 37.7}}, 64, 43.5},
      {"Cori V100, dummy data", {{8, 27.2}, {16, 29.5}, {32, 30.9}}, 64, 31.5},
      {"Summit, real data", {{6, 38.1}, {12, 38.7}, {24, 40.6}}, 96, 44.0},
      {"Summit, dummy data", {{6, 35.8}, {12, 34.6}, {24, 35.6}}, 96, 38.6}};
  double ours = 0, same = 0;
  for (const Row& row : rows) {
    const double predicted = fit_straggling(row.known).step_s(row.ranks);
    const double error = error_of(predicted, row.step_ms);
    const double same_error = error_of(row.known.back().second, row.step_ms);
    MESSAGE(std::string(row.machine) << ": " << predicted << " ms, " << 100 * error
                                     << " %, same step " << 100 * same_error << " %");
    CHECK(std::abs(error) <= 0.13);
    ours += std::abs(error), same += std::abs(same_error);
  }
  CHECK(ours < same);
}

TEST_CASE("collectives of 512 and 4096 nodes from those of 8 and 64") {
  const std::vector<MeasuredCollective> all =
      read_collectives(machines() / "fugaku-collectives.csv");
  std::vector<MeasuredCollective> known;
  for (const MeasuredCollective& m : all)
    if (m.nodes() <= 64) known.push_back(m);
  const TorusCollectives model(known);
  static constexpr const char* kNames[] = {"allreduce", "reduce_scatter", "allgather"};
  std::vector<double> errors;
  for (const MeasuredCollective& m : all) {
    if (m.nodes() <= 64 || m.algorithm != "default") continue;
    const double error = error_of(model.seconds(m.collective, m.shape, m.bytes), m.seconds);
    MESSAGE(std::string(kNames[static_cast<int>(m.collective)])
            << ' ' << m.nodes() << ' ' << m.bytes << " B: " << 100 * error << " %");
    errors.push_back(std::abs(error));
  }
  REQUIRE(errors.size() == 46);
  std::sort(errors.begin(), errors.end());
  MESSAGE("median " << 100 * errors[errors.size() / 2] << " %, worst " << 100 * errors.back());
  CHECK(errors[errors.size() / 2] <= 0.20);
}

TEST_CASE("staging and time to solution of the published runs on Fugaku") {
  const Machine machine = published_machine("fugaku");
  const EpochTable epochs(machines() / "epochs-cosmoflow.csv");
  const std::vector<MeasuredRun> runs = read_runs(machines() / "runs-fugaku-v0.7.csv");
  int compared = 0;
  for (const MeasuredRun& run : runs) {
    Workload work;
    work.batch = run.batch;
    work.sample_bytes = 128.0 * 128 * 128 * 4 * 2;
    work.copies = static_cast<double>(run.mesh.parts.count());  // each part extracted whole samples
    work.epochs = epochs.epochs(run.batch);
    StepForecast training, evaluation;
    training.step_s = training.low_s = training.high_s = run.step_s;
    evaluation.step_s = evaluation.low_s = evaluation.high_s = run.evaluation_step_s;
    const RunForecast f = forecast_run(machine, run.mesh.ranks(), work, training, evaluation);
    MESSAGE(run.label << ": staging " << f.staging_s << " s, " << f.total_s.low / 60 << " to "
                      << f.total_s.high / 60 << " min, mid " << f.total_s.mid / 60 << "; measured "
                      << run.minutes);
    CHECK(f.staging_s == doctest::Approx(run.staging_s).epsilon(0.03));
    CHECK(f.total_s.low <= run.minutes * 60);
    CHECK(f.total_s.high >= run.minutes * 60);
    CHECK(f.total_s.mid == doctest::Approx(run.minutes * 60).epsilon(0.2));
    ++compared;
  }
  CHECK(compared == 3);
}

}  // namespace
}  // namespace halomesh
