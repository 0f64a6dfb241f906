// SPDX-License-Identifier: Apache-2.0
// Throughput of bench against ranks, a line per local batch: Fig. 5 of Farrell et al.,
// arXiv:2110.11466. With two files, the first is "before" (dashed) and the last "after".
#include <algorithm>
#include <cmath>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

struct Line {
  std::string name;
  bool dashed = false;
  std::vector<Datum> points;  ///< by ascending ranks
};

/// One line per file, parts, precision and local batch.
std::vector<Line> lines_of(const ReportInput& input) {
  std::vector<Line> lines;
  for (std::size_t file = 0; file < input.benches.size(); ++file)
    for (const auto& run : input.benches[file].record["runs"]) {
      std::string name = fmt::format("{} parts, {}, local batch {}", text_at(run, {"parts"}),
                                     text_at(run, {"precision"}), number_at(run, {"local_batch"}));
      // Files of one case at several numbers of ranks make one line; before and after make two.
      const bool before = input.benches.size() == 2 && file == 0;
      if (input.benches.size() == 2) name += before ? " (before)" : " (after)";
      auto at = std::find_if(lines.begin(), lines.end(),
                             [&](const Line& line) { return line.name == name; });
      if (at == lines.end()) at = lines.insert(lines.end(), {name, before, {}});
      at->points.push_back(with_range(
          point(number_at(run, {"ranks"}), number_at(run, {"samples_per_second", "median"}), name),
          number_at(run, {"samples_per_second", "min"}),
          number_at(run, {"samples_per_second", "max"})));
    }
  for (Line& line : lines)
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const Datum& a, const Datum& b) { return a.x < b.x; });
  return lines;
}

Figure throughput(const std::vector<Line>& lines) {
  Figure figure = new_figure(
      "bench-throughput", "Training rate against ranks", {"ranks", true}, {"samples/s", true},
      fmt::format("Measured by bench: median and range over steps. Dotted: ideal, from the first "
                  "point of a line. As Fig. 5 of {}.",
                  kPaper));
  for (const Line& line : lines) {
    Series series = new_series(line.name, Mark::kLineAndPoints, line.points);
    series.dashed = line.dashed;
    add_series(figure, std::move(series));
    const Datum &first = line.points.front(), &last = line.points.back();
    if (!(last.x > first.x)) continue;
    Series ideal = new_series("ideal: " + line.name, Mark::kLine,
                              {point(first.x, first.y), point(last.x, first.y * last.x / first.x)});
    ideal.dashed = true;
    add_series(figure, std::move(ideal));
  }
  return figure;
}

Table rates(const ReportInput& input, const std::vector<Line>& lines) {
  Table table = new_table(
      "bench-rates", "Measured speed",
      {"file", "parts", "replicas", "ranks", "precision", "batch", "local batch", "step in ms",
       "training in samples/s", "per rank", "efficiency", "evaluation in samples/s", "of peak"},
      "<<>><>>>>>>>>",
      "Medians over steps, with least and most. Efficiency: rate per rank over that of the line's "
      "first point.");
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
      table.rows.push_back(
          {bench.name, text_at(run, {"parts"}), shown(number_at(run, {"replicas"})), shown(ranks),
           text_at(run, {"precision"}), shown(number_at(run, {"batch"})),
           shown(number_at(run, {"local_batch"})), spread("step_seconds", 1e3),
           spread("samples_per_second", 1), shown(rate / ranks), percent(efficiency(ranks, rate)),
           run.contains("evaluated_samples_per_second") ? spread("evaluated_samples_per_second", 1)
                                                        : "-",
           percent(number_at(run, {"peak_fraction"}))});
    }
  return table;
}

}  // namespace

Section bench_section(const ReportInput& input) {
  Section section{"bench", "Throughput measured by bench", {}, {}, {}};
  if (input.benches.empty()) return section;
  const std::vector<Line> lines = lines_of(input);
  section.figures.push_back(throughput(lines));
  section.tables.push_back(rates(input, lines));
  return section;
}

}  // namespace halomesh
