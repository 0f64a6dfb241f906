// SPDX-License-Identifier: Apache-2.0
// Throughput of bench against ranks, a line per local batch: Fig. 5 of Farrell et al.,
// arXiv:2110.11466. With two files, the first is "before" (dashed) and the last "after".
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

struct Line {
  std::string name;
  bool dashed = false;
  std::vector<Datum> points, predicted;  ///< by ascending ranks
};

using Json = nlohmann::json;

/// Where in a file's lines a measurement belongs.
using NameOf = std::function<std::string(const Json& run)>;

std::string weak_name(const Json& run) {
  return fmt::format("{} parts, {}, local batch {}", text_at(run, {"parts"}),
                     text_at(run, {"precision"}), number_at(run, {"local_batch"}));
}

std::string strong_name(const Json& run) {
  return fmt::format("batch {}, {}", shown(number_at(run, {"batch"})), text_at(run, {"precision"}));
}

Datum measured(const Json& run) {
  return with_range(
      point(number_at(run, {"ranks"}), number_at(run, {"samples_per_second", "median"}),
            text_at(run, {"parts"}) + " parts"),
      number_at(run, {"samples_per_second", "min"}), number_at(run, {"samples_per_second", "max"}));
}

/// Whether a run belongs to this kind of scaling. Those of bench belong to both; a study measures
/// each run for one of them.
bool scales(const Json& run, const char* kind) {
  return !run.contains("scaling") || text_at(run, {"scaling"}) == kind;
}

/// One line per name, and per file where two are compared.
std::vector<Line> lines_of(const ReportInput& input, const char* kind, const NameOf& name_of) {
  std::vector<Line> lines;
  for (std::size_t file = 0; file < input.benches.size(); ++file)
    for (const auto& run : input.benches[file].record["runs"]) {
      if (!scales(run, kind)) continue;
      std::string name = name_of(run);
      // Files of one case at several numbers of ranks make one line; before and after make two.
      const bool before = input.benches.size() == 2 && file == 0;
      if (input.benches.size() == 2) name += before ? " (before)" : " (after)";
      auto at = std::find_if(lines.begin(), lines.end(),
                             [&](const Line& line) { return line.name == name; });
      if (at == lines.end()) at = lines.insert(lines.end(), {name, before, {}, {}});
      at->points.push_back(measured(run));
      if (const double step_s = number_at(run, {"predicted_step_seconds"}); step_s > 0)
        at->predicted.push_back(point(number_at(run, {"ranks"}), number_at(run, {"batch"}) / step_s,
                                      text_at(run, {"parts"}) + " parts, predicted"));
    }
  for (Line& line : lines)
    for (std::vector<Datum>* points : {&line.points, &line.predicted})
      std::stable_sort(points->begin(), points->end(),
                       [](const Datum& a, const Datum& b) { return a.x < b.x; });
  return lines;
}

/// Of several meshes on as many ranks, the fastest.
void keep_fastest(std::vector<Datum>& points) {
  std::vector<Datum> kept;
  for (const Datum& datum : points) {
    if (kept.empty() || kept.back().x != datum.x)
      kept.push_back(datum);
    else if (datum.y > kept.back().y)
      kept.back() = datum;
  }
  points = std::move(kept);
}

void add_lines(Figure& figure, const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    Series series = new_series(line.name, Mark::kLineAndPoints, line.points);
    series.dashed = line.dashed;
    add_series(figure, std::move(series));
    if (!line.predicted.empty()) {
      Series predicted =
          new_series("predicted: " + line.name, Mark::kLineAndPoints, line.predicted);
      predicted.dashed = true;
      add_series(figure, std::move(predicted));
    }
    const Datum &first = line.points.front(), &last = line.points.back();
    if (!(last.x > first.x)) continue;
    Series ideal = new_series("ideal: " + line.name, Mark::kLine,
                              {point(first.x, first.y), point(last.x, first.y * last.x / first.x)});
    ideal.dashed = true;
    add_series(figure, std::move(ideal));
  }
}

Figure throughput(const std::vector<Line>& lines) {
  Figure figure = new_figure(
      "bench-throughput", "Training rate against ranks", {"ranks", true}, {"samples/s", true},
      fmt::format("Median and range over steps. Dashed: the ideal, from the first point of a line, "
                  "and predictions. As Fig. 5 of {}.",
                  kPaper));
  add_lines(figure, lines);
  return figure;
}

/// Without series where no batch was trained on several numbers of ranks.
Figure strong_scaling(const ReportInput& input) {
  Figure figure =
      new_figure("bench-strong", "One batch on more ranks", {"ranks", true}, {"samples/s", true},
                 "The fastest mesh of each number of ranks, for one batch size. "
                 "Dashed: the ideal, from the first point of a line, and predictions.");
  std::vector<Line> lines = lines_of(input, "strong", strong_name);
  for (Line& line : lines) {
    keep_fastest(line.points);
    keep_fastest(line.predicted);
  }
  lines.erase(std::remove_if(lines.begin(), lines.end(),
                             [](const Line& line) { return line.points.size() < 2; }),
              lines.end());
  add_lines(figure, lines);
  return figure;
}

Table rates(const ReportInput& input, const std::vector<Line>& lines) {
  Table table = new_table(
      "bench-rates", "Measured speed",
      {"file", "parts", "replicas", "ranks", "precision", "batch", "local batch", "step in ms",
       "predicted in ms", "training in samples/s", "per rank", "efficiency",
       "evaluation in samples/s", "of peak"},
      "<<>><>>>>>>>>>",
      "Medians over steps, with least and most. Efficiency: rate per rank over that of the line's "
      "first point; in a scaling study, of the fastest run on the fewest ranks.");
  const auto efficiency = [&](double ranks, double rate) {
    for (const Line& line : lines)
      for (const Datum& datum : line.points)
        if (datum.x == ranks && datum.y == rate)
          return rate / ranks / (line.points.front().y / line.points.front().x);
    return std::nan("");
  };
  for (const BenchFile& bench : input.benches)
    for (const auto& run : bench.record["runs"]) {
      const double ranks = number_at(run, {"ranks"});
      const double rate = number_at(run, {"samples_per_second", "median"});
      const auto spread = [&](const char* name, double scale) {
        return fmt::format("{} ({} .. {})", shown(scale * number_at(run, {name, "median"})),
                           shown(scale * number_at(run, {name, "min"})),
                           shown(scale * number_at(run, {name, "max"})));
      };
      const double predicted_s = number_at(run, {"predicted_step_seconds"});
      const std::string predicted = predicted_s > 0 ? shown(1e3 * predicted_s) : "-";
      const double of_study = number_at(run, {"efficiency"});
      table.rows.push_back(
          {bench.name, text_at(run, {"parts"}), shown(number_at(run, {"replicas"})), shown(ranks),
           text_at(run, {"precision"}), shown(number_at(run, {"batch"})),
           shown(number_at(run, {"local_batch"})), spread("step_seconds", 1e3), predicted,
           spread("samples_per_second", 1), shown(rate / ranks),
           percent(of_study > 0 ? of_study : efficiency(ranks, rate)),
           run.contains("evaluated_samples_per_second") ? spread("evaluated_samples_per_second", 1)
                                                        : "-",
           percent(number_at(run, {"peak_fraction"}))});
    }
  return table;
}

}  // namespace

Section bench_section(const ReportInput& input) {
  Section section{"bench", "Measured throughput", {}, {}, {}};
  if (input.benches.empty()) return section;
  const std::vector<Line> lines = lines_of(input, "weak", weak_name);
  if (Figure figure = throughput(lines); !figure.series.empty())
    section.figures.push_back(std::move(figure));
  if (Figure strong = strong_scaling(input); !strong.series.empty())
    section.figures.push_back(std::move(strong));
  section.tables.push_back(rates(input, lines));
  return section;
}

}  // namespace halomesh
