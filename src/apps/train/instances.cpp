// SPDX-License-Identifier: Apache-2.0
// Many models trained at once: see instances.hpp.
#include "src/apps/train/instances.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "printable.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/mpi/quiet_barrier.hpp"
#include "runtime/mpi/stop_relay.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "runtime/train/wall_limit.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/train/group_training.hpp"
#include "src/apps/train/shared_stage.hpp"
#include "src/apps/train/training_plan.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

struct Instance {
  std::string name;
  GroupResult result;
};

std::string name_of_instance(std::int64_t number, std::int64_t count) {
  const std::size_t digits = std::max<std::size_t>(2, std::to_string(count - 1).size());
  return fmt::format("instance-{:0{}}", number, digits);
}

/// The results of every group, from its first rank; the same on every rank.
std::vector<Instance> results_of_all(const Comm& world, std::int64_t count, bool first_of_group,
                                     const GroupResult& mine) {
  std::vector<Instance> all;
  for (const std::string& text : world.all_gather(first_of_group ? dump_json(to_json(mine)) : ""))
    if (!text.empty())
      all.push_back({name_of_instance(std::ssize(all), count), group_result_of(parse_json(text))});
  return all;
}

double models_per_minute(const std::vector<Instance>& all, double seconds) {
  const auto models = std::count_if(all.begin(), all.end(), [](const Instance& one) {
    return one.result.trained && one.result.is_complete();
  });
  return 60 * static_cast<double>(models) / seconds;
}

Json record_of(const std::vector<Instance>& all, const std::optional<SharedStage>& stage,
               const Options& options, double seconds) {
  Json instances = Json::array();
  for (const Instance& one : all) {
    Json json = {{"directory", one.name},
                 {"seed", options.get<std::uint64_t>("seed") +
                              static_cast<std::uint64_t>(std::ssize(instances))}};
    json.update(to_json(one.result));
    instances.push_back(std::move(json));
  }
  Json record = {{"time", unix_time()},
                 {"seconds", seconds},
                 {"models_per_minute", models_per_minute(all, seconds)}};
  if (stage) record["stage"] = to_json(stage->record);
  record["instances"] = std::move(instances);
  return record;
}

void print_table(std::ostream& out, const std::vector<Instance>& all, double seconds) {
  const auto scored = std::find_if(
      all.begin(), all.end(), [](const Instance& one) { return one.result.score.has_value(); });
  const Score kind = scored == all.end() ? Score::kMae : scored->result.kind;
  TextTable table({"instance", "result", "epochs", "steps",
                   fmt::format("validation {}", title_of(kind)), "seconds", ""},
                  "<<>>>><");
  for (const auto& [name, result] : all)
    table.add({name, result.end, std::to_string(result.epochs), std::to_string(result.steps),
               result.score ? fmt::format("{:g}", *result.score) : "-",
               fmt::format("{:.1f}", result.seconds), result.trained ? "" : "(by an earlier job)"});
  out << table
      << fmt::format("{:.3g} models per minute ({:.1f} s)\n", models_per_minute(all, seconds),
                     seconds)
      << std::flush;
}

/// Throws one error for all failed instances. If all failed with one usage error, it is that error.
void throw_failures(const std::vector<Instance>& all) {
  std::vector<NamedFailure> failed;
  for (const auto& [name, result] : all)
    if (result.has_failed()) failed.push_back({name, Error(result.error, result.hint)});
  if (failed.empty()) return;
  const bool alike = std::all_of(all.begin(), all.end(), [&](const Instance& one) {
    return one.result.is_usage && one.result.error == all.front().result.error;
  });
  if (alike) throw UsageError(all.front().result.error, all.front().result.hint);
  throw joint_failure(failed, std::ssize(all), "instances");
}

/// Records and prints the ends of all instances. Returns the exit code; throws Error if some
/// failed. Collective.
int conclude(const Comm& world, const Options& options, const std::vector<Instance>& all,
             const std::optional<SharedStage>& stage, double seconds) {
  if (world.rank() == 0) print_table(std::cout, all, seconds);
  write_record(world, std::filesystem::path(options.get<std::string>("out")) / "instances.json",
               record_of(all, stage, options, seconds));
  const bool stopped = std::any_of(all.begin(), all.end(),
                                   [](const Instance& one) { return one.result.end == "stopped"; });
  if (stopped) return kExitStopped;  // failed ones are tried again when the others resume
  throw_failures(all);
  return kExitDone;
}

}  // namespace

int train_instances(const Comm& world, const Options& options) {
  const std::int64_t count =
      divisor_of_ranks(world, "--instances", options.get<std::int64_t>("instances"));
  const std::int64_t ranks_each = world.size() / count;
  refuse_shared_files(options, "with --instances");
  const std::filesystem::path out = options.get<std::string>("out");
  const RankBinding binding = bind_threads(world);
  const auto lock = hold_directory(world, out, "training", "--out");
  require_other_use(world, out, "run.json", "one training run");
  // Ranks whose instance has ended must survive a signal, so that the others can stop cleanly.
  StopSignals signals(nullptr, "");
  StopRelay relay(world);
  signals.share([&relay](bool received) { return relay.poll(received); });
  if (world.rank() == 0)
    std::cout << fmt::format("{} instances on {} {} each, in {}/{} and so on", count, ranks_each,
                             ranks_each == 1 ? "rank" : "ranks", printable(out.string()),
                             name_of_instance(0, count))
              << std::endl;

  BeforeRun before;
  const double begin_s = before.started_s;
  const std::int64_t number = world.rank() / ranks_each;
  const Comm group = group_of(world, ranks_each);
  Options mine = options;
  mine.replace("out", (out / name_of_instance(number, count)).string());
  mine.replace("seed",
               to_text(options.get<std::uint64_t>("seed") + static_cast<std::uint64_t>(number)));
  std::optional<SharedStage> stage;
  if (!options.get<std::string>("stage-dir").empty()) {
    const WallLimit limit(begin_s, options.get<double>("wall-limit"));
    stage = stage_for_runs(world, group, mine,
                           [&] { return signals.requested() || limit.reached(MPI_Wtime(), 0); });
    if (!stage) {
      relay.finish();
      if (world.rank() == 0)
        std::cout << "stopped while staging; run the same command again to start over" << std::endl;
      return kExitStopped;
    }
    before.staged = &stage->splits;
    before.mllog = &stage->mllog;
  }
  const GroupResult result = train_in_group(group, mine, binding, before);
  if (group.rank() == 0)
    std::cout << fmt::format("{}: {}{}{}\n", name_of_instance(number, count), result.end,
                             result.has_failed() ? ": " : "", printable(result.error))
              << std::flush;
  quiet_barrier(world, [&signals] { signals.requested(); });
  relay.finish();

  const double seconds = world.max(MPI_Wtime() - begin_s);
  return conclude(world, options, results_of_all(world, count, group.rank() == 0, result), stage,
                  seconds);
}

}  // namespace halomesh
