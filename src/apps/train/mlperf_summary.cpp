// SPDX-License-Identifier: Apache-2.0
// The command `mlperf-summary`: a table of the runs of MLPerf logs and their score. Needs no MPI.
#include "runtime/log/mlperf_summary.hpp"

#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/input_file.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/options.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

const char* end_name(MlperfEnd end) {
  if (end == MlperfEnd::kReached) return "reached";
  return end == MlperfEnd::kMissed ? "missed" : "unfinished";
}

/// `log` may also be the directory of a run.
MlperfRun read_run(const std::filesystem::path& log, double target) {
  const std::filesystem::path file = is_directory(log) ? log / "mllog.txt" : log;
  if (!exists(file))
    throw Error(fmt::format("no log {}", file.c_str()), "give logs or --out directories");
  return read_mlperf_run(read_input_file(file), file.string(), target);
}

std::string number(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

void print_table(const std::vector<MlperfRun>& runs, const MlperfScore& score, double target) {
  TextTable table({"end", "epochs", "least MAE", "staging s", "run min", "resumed", "log"},
                  "<>>>>><");
  for (const MlperfRun& run : runs)
    table.add({end_name(run.end), std::to_string(run.epochs), number(run.best_error, 5),
               number(run.staging_s, 1), number(run.minutes, 2), std::to_string(run.resumed),
               run.name});
  std::cout << table << '\n'
            << runs.size() << " runs, " << score.missed << " missed the MAE of " << target;
  if (score.olympic_minutes)
    std::cout << "; olympic mean " << number(score.olympic_minutes, 2) << " min\n";
  else
    std::cout << "; no score: " << score.reason << '\n';
}

nlohmann::ordered_json record(const std::vector<MlperfRun>& runs, const MlperfScore& score,
                              double target) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::optional<double>& v) { return v ? Json(*v) : Json(); };
  Json list = Json::array();
  for (const MlperfRun& run : runs)
    list.push_back({{"log", run.name},
                    {"end", end_name(run.end)},
                    {"epochs", run.epochs},
                    {"least_mae", or_null(run.best_error)},
                    {"staging_s", run.staging_s},
                    {"run_minutes", or_null(run.minutes)},
                    {"resumed", run.resumed}});
  return {{"target_mae", target},
          {"missed", score.missed},
          {"olympic_minutes", or_null(score.olympic_minutes)},
          {"no_score_because", score.reason.empty() ? Json() : Json(score.reason)},
          {"runs", list}};
}

}  // namespace

int run_mlperf_summary(int argc, char** argv) {
  Options options(
      "mlperf-summary [options] LOG...",
      "Prints the runs of MLPerf logs (or of the --out directories that hold them) and "
      "their olympic mean:\nthe mean without the fastest and the slowest run. A run that "
      "missed the target counts as the slowest.",
      "halomesh mlperf-summary runs/1 runs/2 runs/3 runs/4 runs/5");
  options.group("Summary")
      .add<double>("target", "MAE", 0.124, "validation MAE that a run must reach")
      .at_least(0)
      .add<std::string>("json", "FILE", "", "also write the summary as JSON");
  options.accept_arguments().parse(argc, argv);
  if (options.help_wanted()) {
    std::cout << options.help();
    return kExitDone;
  }
  const std::vector<std::string>& logs = options.arguments();
  if (logs.empty())
    throw UsageError("no log was given", "give the mllog.txt, or the --out directory, of each run");
  const auto target = options.get<double>("target");
  std::vector<MlperfRun> runs;
  runs.reserve(logs.size());
  for (const std::string& log : logs) runs.push_back(read_run(log, target));
  const MlperfScore score = score_runs(runs);
  if (const auto file = options.get<std::string>("json"); !file.empty())
    write_file_atomically(file, record(runs, score, target).dump(2) + '\n');
  print_table(runs, score, target);
  return kExitDone;
}

}  // namespace halomesh
