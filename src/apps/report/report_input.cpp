// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/report_input.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "error.hpp"
#include "runtime/posix/input_file.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostJsonBytes = 1 << 28;
constexpr const char* kWhatToGive =
    "give a run's directory, or a file of train --trace, bench --json, scaling or predict";

std::string first_bytes(const fs::path& path) {
  require_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string name_of_run(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return (whole.filename().empty() ? whole.parent_path() : whole).filename().string();
}

MlperfRun read_log(const fs::path& log, double target) {
  return read_mlperf_run(read_input_file(log), log.string(), target);
}

void add_directory(ReportInput& input, const fs::path& path, double target) {
  const fs::path log = path / "mllog.txt";
  const bool has_log = fs::exists(log);
  if (has_log && !fs::exists(path / "run.json") && !fs::exists(path / "metrics.jsonl")) {
    MlperfRun run = read_log(log, target);
    run.name = name_of_run(path);
    input.runs.push_back(numbers_of(nullptr, run, target));
    return;
  }
  const RunFiles& files = input.files.emplace_back(path);
  for (const std::string& problem : files.problems()) input.problems.push_back(problem);
  std::optional<MlperfRun> run;
  if (has_log) {
    const double recorded =
        std::max(std::strtod(option_of(files, "target-mae").c_str(), nullptr),
                 std::strtod(option_of(files, "target-score").c_str(), nullptr));
    try {
      run = read_log(log, recorded > 0 ? recorded : target);
    } catch (const Error& error) {
      input.problems.emplace_back(error.what());
    }
  }
  input.runs.push_back(numbers_of(&files, run, target));
  if (files.steps().empty() && !(run && !run->finished.empty()))
    input.problems.push_back(path.string() + ": no step has been recorded");
}

void add_json(ReportInput& input, const fs::path& path) {
  nlohmann::json record =
      nlohmann::json::parse(read_input_file(path, kMostJsonBytes), nullptr, false);
  require(record.is_object() && record.contains("runs") && record["runs"].is_array() &&
              !record["runs"].empty(),
          path.string() + ": not a file of bench --json or scaling, or one without runs",
          kWhatToGive);
  for (const auto& run : record["runs"])
    require(std::isfinite(number_at(run, {"mean_step_seconds"})) &&
                std::isfinite(number_at(run, {"samples_per_second", "median"})),
            path.string() + ": a run without its step time", kWhatToGive);
  input.benches.push_back({path.stem().string(), std::move(record)});
}

void add_file(ReportInput& input, const fs::path& path, double target) {
  const std::string extension = path.extension().string();
  const std::string head = first_bytes(path);
  if (extension == ".gz" || has(head, "traceEvents")) {
    input.traces.push_back(read_trace_step(path));
  } else if (extension == ".h5" || extension == ".hdf5" || head.rfind("sample,", 0) == 0) {
    input.predictions.push_back(read_predictions(path));
  } else if (extension == ".csv") {
    for (ResultRow& row : read_results(path)) input.results.push_back(std::move(row));
  } else if (has(head, ":::MLLOG")) {
    MlperfRun run = read_log(path, target);
    run.name = path.stem().string();
    input.runs.push_back(numbers_of(nullptr, run, target));
  } else if (extension == ".json") {
    add_json(input, path);
  } else {
    throw Error(path.string() + ": not a file that a report can show", kWhatToGive);
  }
}

}  // namespace

void add_input(ReportInput& input, const std::string& path, double target) {
  try {
    require(fs::exists(path), path + " does not exist", kWhatToGive);
    if (fs::is_directory(path))
      add_directory(input, path, target);
    else
      add_file(input, path, target);
  } catch (const std::exception& error) {
    input.problems.emplace_back(error.what());
  }
}

std::vector<Configuration> parse_configurations(const std::string& text) {
  std::vector<Configuration> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, end - at);
    const std::size_t cross = one.find('x'), slash = one.find('/');
    const bool split = cross != std::string::npos && slash != std::string::npos && cross < slash;
    const auto replicas = from_text<std::int64_t>(split ? one.substr(0, cross) : "");
    const auto parts = from_text<PartGrid>(split ? one.substr(cross + 1, slash - cross - 1) : "");
    const auto batch = from_text<std::int64_t>(split ? one.substr(slash + 1) : "");
    if (!replicas || !parts || !batch || *replicas < 1 || *batch < 1 || *replicas > 1'000'000'000)
      throw UsageError(fmt::format("--predict: '{}' is not a configuration", one),
                       "write REPLICASxPARTS/BATCH, e.g. 512x4x4x1/512");
    all.push_back({*replicas, *batch, *parts});
    at = end + 1;
  }
  return all;
}

EpochsToTarget parse_epochs(const std::string& text) {
  const std::size_t sign = text.find("+-");
  const auto mean = from_text<double>(text.substr(0, sign));
  const auto deviation =
      sign == std::string::npos ? std::optional(0.0) : from_text<double>(text.substr(sign + 2));
  if (!mean || !deviation || *mean <= 0 || *deviation < 0)
    throw UsageError(fmt::format("--epochs-to-target: '{}' is not a number of epochs", text),
                     "write N or N+-S, e.g. 92+-5");
  return {*mean, *deviation};
}

}  // namespace halomesh
