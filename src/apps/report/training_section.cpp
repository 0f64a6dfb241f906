// SPDX-License-Identifier: Apache-2.0
// Curves of training: every point, which drawing thins; the rate as means over pieces of the run.
#include <algorithm>
#include <cmath>
#include <functional>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kRatePoints = 400;  // of a curve of samples/s

/// The steps of one run with where each stands on the axes.
struct Curve {
  const RunNumbers* run = nullptr;
  double steps_per_epoch = 1;
  std::vector<double> seconds;             ///< of each step's end since the run's start
  std::vector<double> evaluation_seconds;  ///< of each validation's end
};

double steps_of_an_epoch(const RunNumbers& run) {
  if (run.training_samples >= run.batch && run.batch > 0)
    return std::floor(static_cast<double>(run.training_samples) / static_cast<double>(run.batch));
  const auto& steps = run.files->steps();
  const std::int64_t epoch = steps.front().record.epoch;
  const auto in_first = std::count_if(steps.begin(), steps.end(),
                                      [&](const auto& step) { return step.record.epoch == epoch; });
  return static_cast<double>(std::max<std::int64_t>(in_first, 1));
}

/// By the time of each line, or, in files without it, by the durations.
Curve curve_of(const RunNumbers& run) {
  Curve curve;
  curve.run = &run;
  curve.steps_per_epoch = steps_of_an_epoch(run);
  const auto& steps = run.files->steps();
  const bool timed = steps.front().time > 0;
  const double start = timed ? steps.front().time - steps.front().record.seconds : 0;
  const auto& evaluations = run.files->evaluations();
  std::size_t next = 0;
  double now = 0;
  const auto evaluate = [&] {
    now = timed ? evaluations[next].time - start : now + evaluations[next].record.seconds;
    curve.evaluation_seconds.push_back(now);
    ++next;
  };
  for (const auto& step : steps) {
    while (next < evaluations.size() && evaluations[next].record.epoch < step.record.epoch)
      evaluate();
    now = timed && step.time > 0 ? step.time - start : now + step.record.seconds;
    curve.seconds.push_back(now);
  }
  while (next < evaluations.size()) evaluate();
  return curve;
}

enum class Over { kEpochs, kSteps, kTime };

struct TimeUnit {
  const char* name;
  double seconds;
};

TimeUnit unit_for(const std::vector<Curve>& curves) {
  double most = 0;
  for (const Curve& curve : curves) most = std::max(most, curve.seconds.back());
  return most > 7200 ? TimeUnit{"h", 3600} : most > 600 ? TimeUnit{"min", 60} : TimeUnit{"s", 1};
}

double place(const Curve& curve, std::size_t step, Over over, double unit_s) {
  const auto number = static_cast<double>(curve.run->files->steps()[step].record.step);
  if (over == Over::kTime) return curve.seconds[step] / unit_s;
  return over == Over::kSteps ? number : number / curve.steps_per_epoch;
}

using Points = std::function<std::vector<Datum>(const Curve&, Over, double unit_s)>;

std::vector<Datum> losses(const Curve& curve, Over over, double unit_s) {
  std::vector<Datum> data;
  const auto& steps = curve.run->files->steps();
  data.reserve(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    data.push_back(point(place(curve, i, over, unit_s), steps[i].record.loss));
  return data;
}

/// Only where the rate changes: the last step of the old value and the first of the new.
std::vector<Datum> learning_rates(const Curve& curve, Over over, double unit_s) {
  std::vector<Datum> data;
  const auto& steps = curve.run->files->steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto differs = [&](std::size_t j) { return steps[i].record.lr != steps[j].record.lr; };
    if (i == 0 || i + 1 == steps.size() || differs(i - 1) || differs(i + 1))
      data.push_back(point(place(curve, i, over, unit_s), steps[i].record.lr));
  }
  return data;
}

std::vector<Datum> rates(const Curve& curve, Over over, double unit_s) {
  std::vector<Datum> data;
  const auto& steps = curve.run->files->steps();
  const std::size_t piece = (steps.size() + kRatePoints - 1) / kRatePoints;
  for (std::size_t begin = 0; begin < steps.size(); begin += piece) {
    const std::size_t end = std::min(begin + piece, steps.size());
    double seconds = 0;
    for (std::size_t i = begin; i < end; ++i) seconds += steps[i].record.seconds;
    data.push_back(
        point(place(curve, end - 1, over, unit_s),
              static_cast<double>(end - begin) * static_cast<double>(curve.run->batch) / seconds));
  }
  return data;
}

/// The scores of one kind.
template <Score kKind>
std::vector<Datum> scores(const Curve& curve, Over over, double unit_s) {
  std::vector<Datum> data;
  const auto& evaluations = curve.run->files->evaluations();
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    if (evaluations[i].record.kind != kKind) continue;
    const auto epoch = static_cast<double>(evaluations[i].record.epoch + 1);
    data.push_back(point(over == Over::kTime    ? curve.evaluation_seconds[i] / unit_s
                         : over == Over::kSteps ? epoch * curve.steps_per_epoch
                                                : epoch,
                         evaluations[i].record.score));
  }
  return data;
}

struct Quantity {
  const char *id, *title, *axis, *caption;
  Mark mark;
  Points points;
};

bool is_wide(const Figure& figure) {
  for (const Series& series : figure.series)
    for (const Datum& datum : series.data)
      if (std::isfinite(datum.y) && datum.y <= 0) return false;
  const auto [least, most] = range_over(figure, [](const Datum& datum) { return datum.y; });
  return most > 20 * least;
}

Figure figure_of(const Quantity& quantity, const std::vector<Curve>& curves, Over over) {
  const TimeUnit unit = unit_for(curves);
  const char* against = over == Over::kEpochs ? "epochs" : over == Over::kSteps ? "steps" : "time";
  Figure figure = new_figure(fmt::format("{}-over-{}", quantity.id, against),
                             fmt::format("{} against {}", quantity.title, against),
                             {over == Over::kTime ? fmt::format("time in {}", unit.name) : against},
                             {quantity.axis}, quantity.caption);
  for (const Curve& curve : curves)
    add_series(figure, new_series(curve.run->name, quantity.mark,
                                  quantity.points(curve, over, unit.seconds)));
  figure.y.logarithmic = is_wide(figure);
  const bool same = std::all_of(curves.begin(), curves.end(), [&](const Curve& curve) {
    return curve.steps_per_epoch == curves.front().steps_per_epoch;
  });
  if (over == Over::kEpochs && same) figure.top = SecondScale{"steps", curves[0].steps_per_epoch};
  return figure;
}

void add_target(Figure& figure, Score kind, const std::vector<Curve>& curves) {
  for (const Curve& curve : curves)
    if (curve.run->target > 0 && curve.run->kind == kind) {
      figure.levels.push_back(
          {fmt::format("target {}", shown(curve.run->target)), curve.run->target, 0});
      return;
    }
}

}  // namespace

Section training_section(const ReportInput& input) {
  Section section{"training", "Training", {}, {}, {}};
  std::vector<Curve> curves;
  for (const RunNumbers& run : input.runs)
    if (run.files != nullptr && !run.files->steps().empty()) curves.push_back(curve_of(run));
  if (curves.empty()) return section;
  const std::vector<Quantity> quantities = {
      {"loss", "Training loss", "loss", "Of each step's batch.", Mark::kLine, losses},
      {"mae", "Validation MAE", "mean absolute error", "Over the validation set, after an epoch.",
       Mark::kLineAndPoints, scores<Score::kMae>},
      {"dice", "Validation Dice", "mean Dice coefficient",
       "Of all classes but the first, over the validation set, after an epoch.",
       Mark::kLineAndPoints, scores<Score::kDice>},
      {"iou", "Validation IoU", "mean intersection over union",
       "Of all classes, over the validation set, after an epoch.", Mark::kLineAndPoints,
       scores<Score::kIou>},
      {"learning-rate", "Learning rate", "learning rate", "As used by each step.", Mark::kLine,
       learning_rates},
      {"rate", "Training rate", "samples/s", "Batch size over the mean duration of the steps.",
       Mark::kLine, rates}};
  const bool several = std::any_of(curves.begin(), curves.end(), [&](const Curve& curve) {
    return curve.steps_per_epoch != curves.front().steps_per_epoch;
  });
  for (const Quantity& quantity : quantities)
    for (const Over over : {Over::kEpochs, Over::kSteps, Over::kTime}) {
      // With one number of steps per epoch the upper scale shows the steps.
      if (over == Over::kSteps && !several) continue;
      Figure figure = figure_of(quantity, curves, over);
      for (const Score kind : kScores)
        if (std::string_view(key_of(kind)) == quantity.id) add_target(figure, kind, curves);
      if (!figure.series.empty()) section.figures.push_back(std::move(figure));
    }
  return section;
}

}  // namespace halomesh
