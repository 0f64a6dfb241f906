// The command `mlperf-summary`: a table of the runs of MLPerf logs and their score. Needs no MPI.
// Knows how results are printed; what logs mean is runtime/mlperf_summary.
#include "runtime/mlperf_summary.hpp"

#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/atomic_file.hpp"
#include "runtime/line_file.hpp"
#include "src/apps/commands.hpp"
#include "src/apps/options.hpp"
#include "src/apps/parallel.hpp"

namespace halomesh {
namespace {

const char* end_name(MlperfEnd end) {
  if (end == MlperfEnd::kReached) return "reached";
  return end == MlperfEnd::kMissed ? "missed" : "unfinished";
}

/// `log` may be the directory of a run, too.
MlperfRun read_run(const std::filesystem::path& log, double target) {
  const std::filesystem::path file = is_directory(log) ? log / "mllog.txt" : log;
  if (!exists(file)) throw Error(cat("no log ", file.string()), "give logs or --out directories");
  return read_mlperf_run(read_text(file), file.string(), target);
}

std::string number(const std::optional<double>& value, int digits) {
  if (!value) return "-";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, *value);
  return text.data();
}

void print_row(const std::array<std::string, 7>& cells) {
  constexpr std::array<int, 6> kWidths = {10, 8, 11, 11, 10, 9};
  for (std::size_t i = 0; i < kWidths.size(); ++i) {
    const auto width = static_cast<std::size_t>(kWidths[i]);
    std::cout << std::string(width - std::min(width, cells[i].size()), ' ') << cells[i];
  }
  std::cout << "  " << cells.back() << '\n';
}

void print_table(const std::vector<MlperfRun>& runs, const MlperfScore& score, double target) {
  print_row({"end", "epochs", "least MAE", "staging s", "run min", "resumed", "log"});
  for (const MlperfRun& run : runs)
    print_row({end_name(run.end), std::to_string(run.epochs), number(run.best_error, 5),
               number(run.staging_s, 1), number(run.minutes, 2), std::to_string(run.resumed),
               run.name});
  std::cout << '\n' << runs.size() << " runs, " << score.missed << " missed the MAE of " << target;
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
      "their olympic mean:\nthat of all runs but the fastest and the slowest. A run that "
      "missed the target counts as the slowest.");
  options.group("Summary")
      .add<double>("target", "MAE", 0.124, "quality to be reached")
      .at_least(0)
      .add<std::string>("json", "FILE", "", "write all of it here, too");
  if (Options::asks_for_help(argc, argv)) {
    std::cout << options.help();
    return kExitDone;
  }
  std::vector<const char*> own{argv[0]};
  std::vector<std::string> logs;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      logs.push_back(word);
      continue;
    }
    own.push_back(argv[i]);
    if (word.find('=') == std::string::npos && i + 1 < argc) own.push_back(argv[++i]);
  }
  options.parse(static_cast<int>(own.size()), own.data());
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
