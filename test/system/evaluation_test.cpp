// SPDX-License-Identifier: Apache-2.0
// eval and predict on several meshes: every sample exactly once, the same quality on each.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "test/harness/skip.hpp"
#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

/// The number after `name` in a command's output.
double number_after(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  CAPTURE(text);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + name.size()));
}

/// The rows of predictions: sample, predicted values, targets.
std::vector<std::vector<double>> read_csv(const fs::path& path) {
  std::istringstream lines(read_file(path));
  std::vector<std::vector<double>> rows;
  std::string line;
  std::getline(lines, line);
  CHECK(line ==
        "sample,name,predicted_omega_m,predicted_sigma_8,predicted_n_s,predicted_h,"
        "target_omega_m,target_sigma_8,target_n_s,target_h");
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    rows.emplace_back();
    std::int64_t column = 0;
    for (std::string cell; std::getline(cells, cell, ',');)
      if (++column != 2) rows.back().push_back(std::stod(cell));  // the second is the name
  }
  return rows;
}

/// Mean of |predicted - target|, computed only from the rows.
double mae_of(const std::vector<std::vector<double>>& rows) {
  double sum = 0;
  for (const auto& row : rows)
    for (std::size_t t = 1; t <= 4; ++t) sum += std::abs(row[t] - row[t + 4]) / 4;
  return sum / static_cast<double>(rows.size());
}

/// The results by target equal those of the predictions, and those of the baselines are the same on
/// every mesh. Returns the number of values compared.
int check_json(const nlohmann::json& json, const nlohmann::json& first,
               const std::vector<std::vector<double>>& rows) {
  int compared = 0;
  const auto n = static_cast<double>(rows.size());
  for (std::size_t t = 0; t < 4; ++t) {
    CAPTURE(t);
    double mean = 0, mae = 0, bias = 0, squares = 0, variance = 0;
    for (const auto& row : rows) {
      const double error = row[t + 1] - row[t + 5];
      mean += row[t + 5] / n, mae += std::abs(error) / n, bias += error / n;
      squares += error * error / n;
    }
    for (const auto& row : rows) variance += (row[t + 5] - mean) * (row[t + 5] - mean) / n;
    const auto& of_target = json.at("targets").at(t);
    // The rows have 9 digits.
    CHECK(std::abs(of_target.at("mae").get<double>() - mae) < 1e-6);
    CHECK(std::abs(of_target.at("bias").get<double>() - bias) < 1e-6);
    CHECK(std::abs(of_target.at("rmse").get<double>() - std::sqrt(squares)) < 1e-6);
    CHECK(std::abs(of_target.at("r2").get<double>() - (1 - squares / variance)) <
          1e-5 * squares / variance);
    for (const char* baseline : {"mean", "spectrum"})
      for (const char* value : {"mae", "rmse", "r2", "bias"}) {
        const auto value_of = [&](const nlohmann::json& from) {
          return from.at("baselines").at(baseline).at("targets").at(t).at(value).get<double>();
        };
        // Sums in another order; the regression, of 10 samples, is far from well conditioned.
        CHECK(std::abs(value_of(json) - value_of(first)) <= 1e-6 * std::abs(value_of(first)));
        ++compared;
      }
  }
  CHECK(json.at("samples") == rows.size());
  CHECK(json.at("targets").at(0).at("name") == "omega_m");
  return compared;
}

}  // namespace

// 10 training samples in batches of 4, and 5 validation samples on 1, 2 and 3 replicas.
TEST_CASE("eval and predict agree on every mesh and count each sample once") {
  Scene scene;
  scene.data = data_set(32, 10, 5);
  const Outcome training = scene.train();
  CAPTURE(training.text);
  REQUIRE(training.exit_code == 0);
  CHECK(training.text.find("dropping the last partial batch of every epoch (2 samples") !=
        std::string::npos);
  CHECK(number_after(training.text, "validation MAE  ") > 0);
  CHECK(training.text.find("(5 samples)") != std::string::npos);

  struct Mesh {
    int ranks;
    std::string parts;
    std::string batch;
  };
  const std::vector<Mesh> meshes = {{1, "1x1x1", "1"}, {2, "1x1x1", "2"}, {3, "1x1x1", "0"},
                                    {2, "1x2x1", "3"}, {4, "2x1x1", "4"}, {6, "1x1x2", "0"}};
  std::vector<std::vector<double>> first;
  nlohmann::json first_json;
  int compared = 0, compared_json = 0;
  for (const Mesh& mesh : meshes) {
    CAPTURE(mesh.ranks);
    CAPTURE(mesh.parts);
    Arguments arguments = {{"checkpoint", scene.out.string()},
                           {"data", scene.data.string()},
                           {"parts", mesh.parts},
                           {"batch", mesh.batch}};
    const fs::path file = workshop().fresh("eval").string() + ".json";
    Arguments with_baselines = arguments;
    with_baselines["baseline"] = "spectrum";
    with_baselines["json"] = file.string();
    const Outcome eval = run(mesh.ranks, "eval", with_baselines);
    CHECK(eval.exit_code == 0);
    CHECK(number_after(eval.text, "samples ") == 5);
    CHECK(eval.text.find("spectrum: MAE") != std::string::npos);
    const fs::path csv = workshop().fresh("predictions").string() + ".csv";
    arguments["out"] = csv.string();
    const Outcome predict = run(mesh.ranks, "predict", arguments);
    CAPTURE(predict.text);
    CHECK(predict.exit_code == 0);
    const auto rows = read_csv(csv);
    const nlohmann::json json = nlohmann::json::parse(read_file(file));
    if (first.empty()) first = rows, first_json = json;
    compared_json += check_json(json, first_json, rows);
    REQUIRE(rows.size() == 5);
    // Both print 6 digits; predictions in fp32 differ by their sums' order, about 1e-6.
    CHECK(std::abs(number_after(eval.text, "MAE ") - mae_of(rows)) <= 1e-5);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      REQUIRE(rows[i].size() == 9);
      CHECK(rows[i][0] == static_cast<double>(i));
      for (std::size_t c = 1; c < 9; ++c) {
        CHECK(std::abs(rows[i][c] - first[i][c]) <= 1e-5);
        ++compared;
      }
    }
  }
  CHECK(compared == 6 * 5 * 8);
  CHECK(compared_json == 6 * 4 * 8);
}

TEST_CASE("a run that standardizes its input keeps the numbers, on any mesh") {
  Scene scene;
  scene.options["dropout"] = "0";
  scene.options["standardize"] = "on";
  Scene cut = scene;
  cut.out = workshop().fresh("out");
  cut.options["parts"] = "1x2x3";
  cut.ranks = 6;
  const Outcome outcome = scene.train(), other = cut.train();
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(other.exit_code == 0);
  CHECK(outcome.text.find("standardizing log(1+x) by the mean:deviation of each channel, ") !=
        std::string::npos);
  const auto numbers = [](const Scene& of) {
    return nlohmann::json::parse(read_file(of.out / "run.json")).at("standardization");
  };
  const auto measured = numbers(scene);
  CHECK(measured.size() == 4);
  for (const auto& channel : measured) CHECK(channel.at("deviation").get<double>() > 0);
  CHECK(measured == numbers(cut));  // with all digits
  const auto curve = read_curve(scene.out), other_curve = read_curve(cut.out);
  REQUIRE(curve.size() == 4);
  REQUIRE(other_curve.size() == 4);
  for (std::size_t i = 0; i < curve.size(); ++i)
    CHECK(std::abs(curve[i].loss - other_curve[i].loss) <= 1e-5 * curve[i].loss);

  // Evaluation takes the numbers of the checkpoint: its MAE is that of the training.
  const Arguments checkpoint = {{"checkpoint", scene.out.string()}, {"data", scene.data.string()}};
  const Outcome eval = run(1, "eval", checkpoint);
  CAPTURE(eval.text);
  const std::size_t last = outcome.text.rfind("validation MAE ");
  REQUIRE(last != std::string::npos);
  const std::string line = outcome.text.substr(last, outcome.text.find('\n', last) - last);
  const std::size_t arrow = line.find("-> ");
  const double trained = std::stod(line.substr(arrow == std::string::npos ? 15 : arrow + 3));
  CHECK(std::abs(number_after(eval.text, "MAE ") - trained) <= 2e-6);

  // Other data do not change the numbers; a network without them is another.
  scene.options["epochs"] = "3";
  scene.data = workshop().fresh("data");
  REQUIRE(run(0, "synth",
              {{"extent", "32"},
               {"train", "8"},
               {"validation", "4"},
               {"seed", "5"},
               {"out", scene.data.string()}})
              .exit_code == 0);
  const Outcome resumed = scene.train();
  CHECK(resumed.exit_code == 0);
  CHECK(numbers(scene) == measured);
  scene.options.erase("standardize");
  check_failure(scene.train(), 1, {"standardize", "-> (none)"});
  Scene tuned;
  tuned.options["init-from"] = checkpoints(scene.out).back().string();
  check_failure(tuned.train(), 2, {"--init-from", "standardizes its input", "--standardize"});
  tuned.options["standardize"] = "on";
  tuned.data = scene.data;
  const Outcome tuning = tuned.train();
  CAPTURE(tuning.text);
  CHECK(tuning.exit_code == 0);
  CHECK(numbers(tuned) == measured);
}

TEST_CASE("predictions that cannot be written, or of nothing, end all ranks with one message") {
  Scene scene;
  REQUIRE(scene.train().exit_code == 0);
  const Arguments good = {{"checkpoint", scene.out.string()},
                          {"data", scene.data.string()},
                          {"out", (scene.out / "p.csv").string()}};
  const auto check = [&](const std::string& option, const std::string& value, int exit_code,
                         const std::vector<std::string>& named) {
    CAPTURE(option);
    Arguments arguments = good;
    arguments[option] = value;
    check_failure(run(2, "predict", arguments), exit_code, named);
  };
  const std::string nowhere = (workshop().fresh("nowhere") / "p.csv").string();
  check("out", nowhere, 1, {nowhere});
  check("out", "p.txt", 2, {"p.txt", ".csv"});
  check("checkpoint", scene.data.string(), 1, {scene.data.string(), "no checkpoint"});
  check("checkpoint", "no.h5", 1, {"no.h5", "no such checkpoint"});
  check("split", "test", 1, {(scene.data / "test").string(), "not a directory"});
  check("batch", "3", 2, {"3", "2 replicas"});
  CHECK(!fs::exists(scene.out / "p.csv"));
}

TEST_CASE("training in bf16 follows the curve of fp32 and leaves a checkpoint for either") {
  Scene scene;
  scene.options["dropout"] = "0";
  scene.options["epochs"] = "0";
  scene.options["steps"] = "40";
  Scene narrow = scene;
  narrow.out = workshop().fresh("out");
  narrow.options["precision"] = "bf16";
  const Outcome outcome = narrow.train();
  CAPTURE(outcome.text);
  if (outcome.exit_code == 2 && outcome.text.find("no instructions for bf16") != std::string::npos)
    return skip_case("this CPU has no instructions for bf16");
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(scene.train().exit_code == 0);
  const auto wide = read_curve(scene.out), curve = read_curve(narrow.out);
  REQUIRE(wide.size() == 40);
  REQUIRE(curve.size() == 40);
  // The first loss differs by the rounding of three layers of bf16 (2^-9 each) in predictions that
  // are of the size of the targets; later ones drift, but the descent must be the same.
  CHECK(curve[0].loss != wide[0].loss);
  CHECK(std::abs(curve[0].loss - wide[0].loss) <= 0.02 * wide[0].loss);
  const auto mean_of_last = [](const auto& points) {
    double sum = 0;
    for (std::size_t i = 30; i < 40; ++i) sum += points[i].loss;
    return sum / 10;
  };
  CHECK(mean_of_last(wide) < 0.9 * wide[0].loss);
  CHECK(std::abs(mean_of_last(curve) - mean_of_last(wide)) <= 0.1 * mean_of_last(wide));
  narrow.options["precision"] = "fp32";
  narrow.options["allow-changes"] = "";
  narrow.options["steps"] = "42";
  const Outcome resumed = narrow.train();
  CHECK(resumed.exit_code == 0);
  CHECK(resumed.text.find("resuming from") != std::string::npos);
  // A completed run says so and prints no figures of steps that it did not make.
  const Outcome again = narrow.train();
  CAPTURE(again.text);
  CHECK(again.exit_code == 0);
  CHECK(again.text.find("nothing to do: already at epoch") != std::string::npos);
  CHECK(again.text.find(" / step 42\n") != std::string::npos);
  CHECK(again.text.find("samples/s") == std::string::npos);
  CHECK(again.text.find("loss  ") == std::string::npos);
}

}  // namespace halomesh::test
