// SPDX-License-Identifier: Apache-2.0
// One of several training runs of a job: see group_training.hpp.
#include "src/apps/train/group_training.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "joined.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/log/metrics.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/posix/output_redirection.hpp"
#include "src/apps/train/training_record.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

/// The seconds recorded by an earlier job, as far as they are readable; only rank 0's value
/// matters.
double earlier_seconds(const std::filesystem::path& file) {
  std::error_code none;
  if (!std::filesystem::exists(file, none)) return 0;
  const Json json = parse_json(read_input_file(file));
  return json.is_object() && json.contains("seconds") && json["seconds"].is_number()
             ? json["seconds"].get<double>()
             : 0;
}

/// The result of a run without failure. Collective.
GroupResult result_of(const Comm& group, const Options& options, const RankBinding& binding,
                      const BeforeRun& before) {
  const double begin_s = MPI_Wtime();
  const TrainingResult training = run_training(group, options, binding, before);
  GroupResult result;
  result.end = name_of(training.end);
  result.steps = training.steps;
  result.epochs = training.epochs;
  if (training.last_evaluation) result.kind = training.last_evaluation->kind;
  if (training.last_evaluation && std::isfinite(training.last_evaluation->score))
    result.score = training.last_evaluation->score;
  result.trained = training.samples_per_s > 0 || training.end == TrainingEnd::kDiverged;
  if (training.end == TrainingEnd::kDiverged) {
    const Error error = divergence_error(training);
    result.error = error.what();
    result.hint = error.hint();
  }
  result.seconds = MPI_Wtime() - begin_s;
  return result;
}

}  // namespace

Error joint_failure(const std::vector<NamedFailure>& failed, std::int64_t total,
                    const std::string& what) {
  constexpr std::size_t kNames = 3;
  std::vector<std::pair<std::string, std::vector<std::string>>> causes;
  for (const NamedFailure& one : failed) {
    auto cause = std::find_if(causes.begin(), causes.end(),
                              [&](const auto& each) { return each.first == one.error.what(); });
    if (cause == causes.end())
      cause = causes.insert(cause, {one.error.what(), std::vector<std::string>()});
    cause->second.push_back(one.name);
  }
  std::vector<std::string> texts;
  for (auto& [error, names] : causes) {
    const std::size_t more = names.size() - std::min(names.size(), kNames);
    names.resize(names.size() - more);
    texts.push_back(fmt::format("{}{}: {}", joined(names, ", "),
                                more > 0 ? fmt::format(" and {} more", more) : "", error));
  }
  return Error(
      fmt::format("{} of {} {} failed: {}", failed.size(), total, what, joined(texts, "; ")),
      failed.front().error.hint());
}

Comm group_of(const Comm& world, std::int64_t ranks_each) {
  return world.split(static_cast<int>(world.rank() / ranks_each), world.rank());
}

std::int64_t divisor_of_ranks(const Comm& world, const std::string& option, std::int64_t value) {
  const std::int64_t ranks = world.size();
  if (ranks % value == 0) return value;
  std::vector<std::int64_t> fit;
  for (std::int64_t n = 1; n <= ranks; ++n)
    if (ranks % n == 0) fit.push_back(n);
  throw UsageError(
      fmt::format("{} {} does not divide the {}", option, value, counted(ranks, "rank")),
      fmt::format("give {} {}, or start a multiple of {} ranks", option,
                  joined(fit, fit.size() == 2 ? " or " : ", "), value));
}

GroupResult train_in_group(const Comm& group, const Options& options, const RankBinding& binding,
                           const BeforeRun& before) {
  const std::filesystem::path out = options.get<std::string>("out");
  const double begin_s = MPI_Wtime();
  double earlier_s = 0;
  GroupResult result;
  const auto failure = contained_failure(group, [&] {
    on_first_rank(group, [&] {
      std::filesystem::create_directories(out);
      earlier_s = earlier_seconds(out / "result.json");
      return std::string();
    });
    const OutputRedirection redirection(out / "output.txt");
    result = result_of(group, options, binding, before);
    if (!result.trained && result.is_complete() && earlier_s > 0) result.seconds = earlier_s;
    on_first_rank(group, [&] {
      write_run_record(out / "result.json", to_json(result));
      return std::string();
    });
  });
  if (!failure) return result;
  result = GroupResult();
  result.end = "failed";
  result.error = failure->error.what();
  result.hint = failure->error.hint();
  result.is_usage = failure->is_usage;
  result.trained = true;
  result.seconds = MPI_Wtime() - begin_s;
  if (group.rank() == 0) try {
      write_run_record(out / "result.json", to_json(result));
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it has failed for a reason to report
    }
  return result;
}

}  // namespace halomesh
