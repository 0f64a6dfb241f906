// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "joined.hpp"
#include "src/apps/report/run_phases.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kMostSentences = 4;

std::string quality(const RunGroup& group) {
  const RunNumbers& run = group.first();
  const Statistics score = group.of(
      [](const RunNumbers& one) { return one.best_score ? *one.best_score : std::nan(""); });
  if (score.count == 0) return "has no validation";
  const std::string value = fmt::format("{:.5f}", score.mean);
  const char* const title = title_of(run.kind);
  if (!(run.target > 0)) return fmt::format("reached a validation {} of {}", title, value);
  if (group.any_reached())
    return fmt::format("reached a validation {} of {} (target {})", title, value, run.target);
  return fmt::format("did not reach the target {} of {}: its best is {}", title, run.target, value);
}

std::string pace(const RunGroup& group) {
  const RunNumbers& run = group.first();
  const Statistics seconds = group.of([](const RunNumbers& one) {
    return one.times.solution ? *one.times.solution : std::nan("");
  });
  const std::string epochs =
      fmt::format("after {} epoch{}", shown(std::round(100 * group.epochs().mean) / 100),
                  group.epochs().mean == 1 ? "" : "s");
  if (seconds.count == 0)
    return fmt::format("{} and {} (the run has not ended)", epochs, duration(run.times.total()));
  return fmt::format("{} in {}", epochs, duration(seconds.mean));
}

std::string sentence(const RunGroup& group) {
  const RunNumbers& run = group.first();
  std::string text = fmt::format("{} {} {}", group.label, quality(group), pace(group));
  const double rate = group.of([](const RunNumbers& one) { return one.training_rate(); }).mean;
  if (std::isfinite(rate) && rate > 0) {
    text += fmt::format("; it trains {} samples/s", shown(rate));
    if (run.ranks > 0) text += fmt::format(" on {} rank{}", run.ranks, run.ranks == 1 ? "" : "s");
  }
  const auto phases = run.files != nullptr ? phases_of(*run.files) : std::nullopt;
  if (phases && !phases->limit.empty()) text += "; what limits: " + phases->limit;
  return text + ".";
}

/// The fastest case of a file of bench.
std::string sentence(const BenchFile& bench) {
  double best = 0;
  std::string text;
  for (const auto& run : bench.record["runs"]) {
    const double rate = number_at(run, {"samples_per_second", "median"});
    if (!(rate > best)) continue;
    best = rate;
    text = fmt::format("{}: {} samples/s on {} ranks ({} parts, {})", bench.name, shown(rate),
                       shown(number_at(run, {"ranks"})), text_at(run, {"parts"}),
                       text_at(run, {"precision"}));
    if (const double share = number_at(run, {"peak_fraction"}); std::isfinite(share) && share > 0)
      text += fmt::format(", {} of the peak", percent(share));
    text += ".";
  }
  return text;
}

}  // namespace

std::vector<std::string> verdict(const ReportInput& input) {
  std::vector<std::string> sentences;
  for (const RunGroup& group : group_runs(input.runs)) sentences.push_back(sentence(group));
  if (sentences.empty())
    for (const BenchFile& bench : input.benches) sentences.push_back(sentence(bench));
  if (sentences.empty())
    for (const PredictionFile& file : input.predictions) {
      double mae = 0;
      for (std::size_t t = 0; t < file.target.size(); ++t)
        mae += errors_of(file.predicted[t], file.target[t]).mae /
               static_cast<double>(file.target.size());
      sentences.push_back(fmt::format("{}: mean absolute error {:.5f} over {} samples.", file.name,
                                      mae, file.target[0].size()));
    }
  if (sentences.empty() && !input.traces.empty())
    sentences.push_back(fmt::format("{}: step {} of {} ranks.", input.traces[0].name,
                                    input.traces[0].step, input.traces[0].traced.size()));
  if (sentences.empty() && !input.results.empty())
    sentences.push_back(fmt::format("Results of {} submissions.", input.results.size()));
  const std::size_t more =
      sentences.size() > kMostSentences ? sentences.size() - kMostSentences : 0;
  sentences.resize(sentences.size() - more);
  if (more > 0) sentences.push_back(fmt::format("And {} more.", more));
  return sentences;
}

}  // namespace halomesh
