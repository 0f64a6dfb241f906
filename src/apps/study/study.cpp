// SPDX-License-Identifier: Apache-2.0
// The command `study`: many small trainings side by side, over a grid of options and seeds.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "counted.hpp"
#include "printable.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/mpi/quiet_barrier.hpp"
#include "runtime/mpi/stop_relay.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "runtime/train/trainer.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/study/cell_queue.hpp"
#include "src/apps/study/study_file.hpp"
#include "src/apps/study/study_table.hpp"
#include "src/apps/train/group_training.hpp"
#include "src/apps/train/training_plan.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// Throws Error if the run in `directory` was trained with other options than `options`.
void require_same_options(const fs::path& directory, const Options& options) {
  const fs::path file = directory / "run.json";
  const std::string cure =
      "give the same options as before, choose another --out, or remove that directory";
  const auto run = parse_json(read_input_file(file));
  require(run.is_object() && run.contains("options") && run["options"].is_object(),
          file.string() + ": damaged", cure);
  const auto wanted = options.decisive_settings();
  Options before = options;
  for (const auto& [name, value] : wanted)
    if (const auto at = run["options"].find(name); at != run["options"].end())
      before.replace(name, at->is_string() ? at->get<std::string>() : at->dump());
  for (const auto& [name, value] : before.decisive_settings())
    require(value == wanted.at(name),
            fmt::format("{} was trained with {} = {}, not {}", directory.string(), name, value,
                        wanted.at(name)),
            cure);
}

/// One study. All ranks have the same cells; rank 0 keeps the results.
class Study {
 public:
  Study(const Comm& world, const Options& options);
  int run();

 private:
  Options options_of(const StudyCell& cell) const;
  void check_cells() const;
  fs::path directory(const StudyCell& cell) const { return out_ / cell.name; }
  std::set<std::int64_t> ended_before() const;
  void train_cells(const std::set<std::int64_t>& ended);
  double seconds_left() const;
  int report();

  const Comm& world_;
  const Options& options_;
  const double begin_s_ = MPI_Wtime();
  const fs::path out_;
  const double target_;
  const std::int64_t ranks_each_;
  const StudyGrid grid_;
  const std::vector<StudyCell> cells_;
  bool stopped_ = false;  ///< this group has been told to stop
};

std::string file_of(const Options& options) {
  if (options.arguments().size() != 1)
    throw UsageError(
        fmt::format("study takes one FILE, but {} were given", options.arguments().size()),
        "give the file of the grid, e.g. halomesh study grid.study --data ...");
  return options.arguments().front();
}

Study::Study(const Comm& world, const Options& options)
    : world_(world),
      options_(options),
      out_(options.get<std::string>("out")),
      target_(options.get<double>("target")),
      ranks_each_(divisor_of_ranks(world, "--ranks-each", options.get<std::int64_t>("ranks-each"))),
      grid_(file_of(options)),
      cells_(grid_.cells(options.get<std::uint64_t>("seed"), options.get<std::int64_t>("seeds"))) {
  check_cells();
}

Options Study::options_of(const StudyCell& cell) const {
  const bool to_target = target_ > 0 && !options_.get<bool>("all-epochs");
  return options_of_cell(options_.get<std::string>("config"), grid_.common(), cell,
                         {{"data", options_.get<std::string>("data")},
                          {"out", directory(cell).string()},
                          {"target-score", to_text(to_target ? target_ : 0.0)}});
}

/// Finds options that exclude each other before anything is trained.
void Study::check_cells() const {
  for (const StudyCell& cell : cells_) try {
      const Options options = options_of(cell);
      refuse_shared_files(options, "in a study");
      if (!options.get<std::string>("stage-dir").empty())
        throw UsageError("--stage-dir cannot be used in a study",
                         "leave it out: each cell would stage the data again");
      check_training(options, ranks_each_);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("cell {}: {}", cell.name, error.what()), error.hint());
    }
}

/// The cells that need no more training, the same on every rank. Failed cells are trained again.
std::set<std::int64_t> Study::ended_before() const {
  const std::string text = on_first_rank(world_, [&] {
    nlohmann::json ended = nlohmann::json::array();
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const auto outcome = read_outcome(cells_[i], directory(cells_[i]), target_);
      if (!outcome || outcome->result.end == "failed") continue;
      require_same_options(directory(cells_[i]), options_of(cells_[i]));
      ended.push_back(i);
    }
    return ended.dump();
  });
  return nlohmann::json::parse(text).get<std::set<std::int64_t>>();
}

/// The seconds until --wall-limit; a day without one.
double Study::seconds_left() const {
  const auto limit = options_.get<double>("wall-limit");
  return limit > 0 ? limit - (MPI_Wtime() - begin_s_) : 86400;
}

void Study::train_cells(const std::set<std::int64_t>& ended) {
  const RankBinding binding = bind_threads(world_);
  const CellQueue queue(world_, out_ / ".taken");
  // Ranks between cells, or without any, must survive a signal.
  StopSignals signals(nullptr, "");
  StopRelay relay(world_);
  signals.share([&relay](bool received) { return relay.poll(received); });
  const Comm group = group_of(world_, ranks_each_);
  for (std::int64_t i = 0; i < std::ssize(cells_); ++i) {
    const StudyCell& cell = cells_[static_cast<std::size_t>(i)];
    if (ended.contains(i)) continue;
    const bool stop = signals.requested() || seconds_left() <= 0;
    stopped_ = stopped_ || group.max(std::int64_t{stop ? 1 : 0}) > 0;
    if (stopped_) break;
    if (!queue.take(group, i)) continue;
    Options options = options_of(cell);
    if (options_.get<double>("wall-limit") > 0)
      options.replace("wall-limit", to_text(std::max(seconds_left(), 1e-3)));
    const GroupResult result = train_in_group(group, options, binding);
    stopped_ = result.end == "stopped";
    if (group.rank() == 0)
      std::cout << fmt::format("{}: {}{}{}\n", cell.name, result.end,
                               result.has_failed() ? ": " : "", printable(result.error))
                << std::flush;
    if (stopped_) break;
  }
  quiet_barrier(world_, [&signals] { signals.requested(); });
  relay.finish();
  stopped_ = world_.max(std::int64_t{stopped_ ? 1 : 0}) > 0;
  if (world_.rank() == 0) queue.remove();
}

/// Reports the results of all jobs of this study. Throws Error for cells that failed.
int Study::report() {
  on_first_rank(world_, [&] {
    std::vector<StudyOutcome> outcomes;
    std::vector<NamedFailure> failed;
    for (const StudyCell& cell : cells_)
      if (const auto outcome = read_outcome(cell, directory(cell), target_)) {
        outcomes.push_back(*outcome);
        if (outcome->result.end == "failed")
          failed.push_back({cell.name, Error(outcome->result.error, outcome->result.hint)});
      }
    print_rows(std::cout, rows_of(outcomes), target_);
    auto json = study_json(outcomes, target_);
    json["cells_asked_for"] = cells_.size();
    write_run_record(out_ / "study.json", json);
    std::cout << fmt::format("{} of {} cells have ended; results in {}\n",
                             outcomes.size() - failed.size(), cells_.size(),
                             printable((out_ / "study.json").string()));
    if (stopped_) std::cout << "stopped before the end; run again to go on\n";
    std::cout << std::flush;
    if (!stopped_ && !failed.empty()) throw joint_failure(failed, std::ssize(cells_), "cells");
    return std::string();
  });
  return stopped_ ? kExitStopped : kExitDone;
}

int Study::run() {
  const auto lock = hold_directory(world_, out_, "a study", "--out");
  const std::set<std::int64_t> ended = ended_before();
  if (world_.rank() == 0)
    std::cout << fmt::format("{} on {} of {}; {} have ended before\n",
                             counted(std::ssize(cells_), "cell"),
                             counted(world_.size() / ranks_each_, "group"),
                             counted(ranks_each_, "rank"), ended.size())
              << std::flush;
  train_cells(ended);
  return report();
}

}  // namespace

int run_study(int argc, char** argv) {
  Options options(
      "study FILE --data DIR --out DIR [options]",
      "Trains a network with every combination of the options in FILE, with several seeds each, "
      "on\n"
      "groups of the ranks side by side, and prints how long each takes to a target. The same\n"
      "command, repeated, resumes.",
      "mpirun -n 8 halomesh study models/batch-epochs.study --data data --out study --target 0.25");
  options.group("Study")
      .add_required<std::string>("data", "DIR", "directory that holds train/ and validation/")
      .add_required<std::string>("out", "DIR", "directory for study.json and the cells' results")
      .add<double>("target", "X", 0.0,
                   "validation score, such as an MAE, at which a cell has reached the target and "
                   "ends; 0: none")
      .at_least(0)
      .add_switch("all-epochs", "train all epochs even after the target is reached")
      .needs("target")
      .add<std::int64_t>("seeds", "N", 3, "seeds of each combination: S, S + 1, ...")
      .at_least(1)
      .at_most(1000)
      .add<std::uint64_t>("seed", "S", 0, "the first of them")
      .add<std::int64_t>("ranks-each", "R", 1, "ranks that train a cell")
      .at_least(1)
      .add<double>("wall-limit", "S", 0.0, "stop within S seconds; run again to go on; 0: no limit")
      .at_least(0);
  options.accept_in_config(all_run_options()).accept_arguments();
  options.closing(
      "FILE holds options of train, one per line as in a configuration, which may also be given "
      "as\n"
      "--config FILE for all cells. Braces span the grid; options joined by & vary together:\n"
      "  epochs = 20\n"
      "  batch = {4 | 16 | 64}\n"
      "  fc = {32,16 | 64,32}\n"
      "  optimizer & lr = {sgd & 0.02 | lamb & 0.004}\n");
  return run_parallel(argc, argv, options,
                      [&](const Comm& world) { return Study(world, options).run(); });
}

}  // namespace halomesh
