// SPDX-License-Identifier: Apache-2.0
// The status of a run for people: see status_text.hpp.
#include "src/apps/watch/status_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "joined.hpp"
#include "runtime/log/progress.hpp"

namespace halomesh {
namespace {

constexpr std::array<const char*, 8> kBlocks = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                "\u2585", "\u2586", "\u2587", "\u2588"};
constexpr std::array<const char*, 8> kAscii = {"_", ".", "-", "~", "=", "+", "*", "#"};
constexpr double kMinorShare = 0.005;

/// The mean of the finite values of each of at most `columns` equal shares.
std::vector<double> means(const std::vector<double>& values, std::size_t columns) {
  columns = std::min(columns, values.size());
  std::vector<double> all;
  for (std::size_t c = 0; c < columns; ++c) {
    double sum = 0, count = 0;
    for (std::size_t i = c * values.size() / columns; i < (c + 1) * values.size() / columns; ++i)
      if (std::isfinite(values[i])) sum += values[i], count += 1;
    all.push_back(count > 0 ? sum / count : std::nan(""));
  }
  return all;
}

std::string of_total(const char* what, std::int64_t done, const std::optional<std::int64_t>& all) {
  return all ? fmt::format("{} {} of {}", what, done, *all) : fmt::format("{} {}", what, done);
}

/// What the run is judged by.
const char* score_of(const RunStatus& status) {
  return title_of(status.last_evaluation ? status.last_evaluation->kind : Score::kMae);
}

std::string state_text(const RunStatus& status) {
  if (status.state == RunState::kSilent) return "silent for " + Progress::duration(status.silent_s);
  if (status.state == RunState::kRunning) return "running";
  if (status.result == "diverged") return "diverged: the loss was no longer finite";
  if (status.result == "target")
    return fmt::format("done: reached the target {}", score_of(status));
  return status.result == "stopped" ? "stopped before the end: start it again to resume" : "done";
}

std::string progress_text(const RunStatus& status) {
  std::string text = of_total("step", status.step, status.steps);
  if (status.steps && *status.steps > 0)
    text += fmt::format(
        " ({:.1f} %)", 100 * static_cast<double>(status.step) / static_cast<double>(*status.steps));
  return text + ", " + of_total("epoch", status.epoch + 1, status.epochs);
}

std::string score_text(const RunStatus& status) {
  const EvaluationRecord& last = *status.last_evaluation;
  std::string text = fmt::format("{:.5g} after epoch {}", last.score, last.epoch + 1);
  if (status.best_score != last.score)
    text += fmt::format(", {} {:.5g}", higher_is_better(last.kind) ? "best" : "least",
                        status.best_score);
  if (status.target_score > 0) text += fmt::format(", target {:.5g}", status.target_score);
  return text;
}

std::string left_text(const RunStatus& status) {
  std::string text;
  if (status.left_s) text = Progress::duration(*status.left_s) + " to the last step";
  if (!status.wall_s) return text;
  const std::string wall = Progress::duration(*status.wall_s) + " to the wall limit";
  return text.empty() ? wall : text + ", " + wall;
}

std::string loss_text(const RunStatus& status, std::size_t columns, bool utf8) {
  const auto by_value = [](double a, double b) { return a < b; };
  std::vector<double> finite;
  std::copy_if(status.losses.begin(), status.losses.end(), std::back_inserter(finite),
               [](double loss) { return std::isfinite(loss); });
  std::string last = fmt::format("{:.5g}", status.losses.back());
  if (finite.empty()) return last;
  const auto [least, most] = std::minmax_element(finite.begin(), finite.end(), by_value);
  std::string range = fmt::format("{} ({:.4g} .. {:.4g})", last, *least, *most);
  const std::size_t used = range.size() + 1;
  if (columns < used + 8) return range;
  return sparkline(status.losses, std::min<std::size_t>(columns - used, 60), utf8) + ' ' + range;
}

std::string shares_text(const RunStatus& status) {
  std::vector<std::string> texts;
  for (const auto& [kind, share] : status.time_shares)
    if (share >= kMinorShare || kind == "input wait")
      texts.push_back(fmt::format("{} {:.1f} %", kind, 100 * share));
  return joined(texts, ", ");
}

std::string speed_text(const RunStatus& status) {
  return fmt::format("{:.4g} samples/s now, {:.4g} mean", status.samples_per_s,
                     status.mean_samples_per_s);
}

}  // namespace

std::string sparkline(const std::vector<double>& values, std::size_t columns, bool utf8) {
  const std::vector<double> heights = means(values, columns);
  double least = INFINITY, most = -INFINITY;
  for (const double height : heights)
    if (std::isfinite(height)) least = std::min(least, height), most = std::max(most, height);
  std::string text;
  for (const double height : heights) {
    if (!std::isfinite(height)) {
      text += '?';
      continue;
    }
    const double level = most > least ? (height - least) / (most - least) : 0;
    const auto index = static_cast<std::size_t>(std::lround(level * (kBlocks.size() - 1)));
    text += utf8 ? kBlocks[index] : kAscii[index];
  }
  return text;
}

std::vector<std::string> status_screen(const RunStatus& status, const std::string& job_state,
                                       const ScreenForm& form) {
  constexpr std::size_t kLabel = 8;
  std::vector<std::string> lines;
  const auto add = [&](const char* label, const std::string& text) {
    if (text.empty()) return;
    lines.push_back(fmt::format("{:<{}}{}", label, kLabel, text));
    // What files and schedulers say must not steer the terminal.
    std::replace_if(
        lines.back().begin(), lines.back().end(), [](char c) { return c >= 0 && c < ' '; }, '?');
  };
  add("run", status.name + (status.ranks ? fmt::format(" on {} ranks", *status.ranks) : "") + ": " +
                 state_text(status));
  if (!status.job.empty())
    add("job", fmt::format("{} {}{}", status.scheduler, status.job,
                           job_state.empty() ? "" : ": " + job_state));
  add("done", progress_text(status));
  add("left", left_text(status));
  if (!status.losses.empty())
    add("loss", loss_text(status, form.columns > kLabel ? form.columns - kLabel : 0, form.utf8));
  if (status.last_evaluation) add(score_of(status), score_text(status));
  if (status.mean_samples_per_s > 0) add("speed", speed_text(status));
  add("time", shares_text(status));
  add("limit", status.limit);
  if (status.state == RunState::kRunning)
    add("last", "line " + Progress::duration(status.silent_s) + " ago");
  // A line wider than the terminal would wrap and could not be redrawn; only that of the loss has
  // characters of several bytes, and is narrow enough.
  for (std::string& line : lines)
    if (line.size() > form.columns && line.rfind("loss", 0) != 0) line.resize(form.columns);
  return lines;
}

std::string status_line(const RunStatus& status, const std::string& job_state) {
  std::string text = status.name + ": " + state_text(status) + ", " + progress_text(status);
  if (!status.losses.empty()) text += fmt::format(", loss {:.5g}", status.losses.back());
  if (status.last_evaluation) text += fmt::format(", {} {}", score_of(status), score_text(status));
  if (status.samples_per_s > 0) text += fmt::format(", {:.4g} samples/s", status.samples_per_s);
  const auto input = std::find_if(status.time_shares.begin(), status.time_shares.end(),
                                  [](const auto& share) { return share.first == "input wait"; });
  if (input != status.time_shares.end())
    text += fmt::format(", input wait {:.1f} %", 100 * input->second);
  if (const std::string left = left_text(status); !left.empty()) text += ", " + left;
  if (!job_state.empty()) text += ", job " + job_state;
  return text;
}

}  // namespace halomesh
