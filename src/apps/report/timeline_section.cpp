// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include "phase.hpp"
#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kMostRows = 16;
constexpr std::size_t kMostSpans = 4000;

PhaseKind kind_of_name(const std::string& phase) {
  for (const PhaseEntry& entry : kPhases)
    if (phase == entry.name) return entry.kind;
  return PhaseKind::kOther;
}

/// The rows shown: all ranks, or equally spaced ones, the first and the last included.
std::vector<std::size_t> rows_of(const TraceStep& trace) {
  std::vector<std::size_t> rows;
  const std::size_t all = trace.traced.size(), most = std::min(all, kMostRows);
  for (std::size_t i = 0; i < most; ++i) rows.push_back(most == 1 ? 0 : i * (all - 1) / (most - 1));
  return rows;
}

void add_spans(Figure& figure, const TraceStep& trace, const std::vector<std::size_t>& rows) {
  std::vector<std::optional<std::size_t>> series(kPhaseKinds);
  for (const TraceSlice& slice : trace.slices) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](std::size_t r) {
      return trace.traced[r].first == slice.rank;
    });
    if (row == rows.end() || figure.spans.size() == kMostSpans) continue;
    const PhaseKind kind = kind_of_name(slice.phase);
    auto& index = series[static_cast<std::size_t>(kind)];
    if (!index) {
      index = figure.series.size();
      figure.series.push_back(new_series(name_of(kind), Mark::kBars));
    }
    Span span;
    span.row = static_cast<std::size_t>(row - rows.begin());
    span.series = *index;
    span.begin = slice.begin_us * 1e-3;
    span.end = slice.end_us * 1e-3;
    span.label = slice.layer.empty() ? slice.phase : slice.phase + " " + slice.layer;
    figure.spans.push_back(std::move(span));
  }
}

Figure timeline(const TraceStep& trace, std::size_t number) {
  const std::vector<std::size_t> rows = rows_of(trace);
  Figure figure =
      new_figure(fmt::format("timeline-{}", number),
                 fmt::format("Step {} of {}", trace.step, trace.name), {"time in ms"}, {""},
                 rows.size() < trace.traced.size()
                     ? fmt::format("What {} of {} traced ranks do during a step.", rows.size(),
                                   trace.traced.size())
                     : std::string("What each traced rank does during a step."));
  figure.horizontal = true;
  for (const std::size_t row : rows) figure.categories.push_back(trace.traced[row].second);
  add_spans(figure, trace, rows);
  return figure;
}

}  // namespace

Section timeline_section(const ReportInput& input) {
  Section section{"timeline", "One step on a timeline", {}, {}, {}};
  for (std::size_t i = 0; i < input.traces.size(); ++i) {
    const TraceStep& trace = input.traces[i];
    if (trace.slices.empty()) continue;
    section.figures.push_back(timeline(trace, i + 1));
    std::string text = fmt::format("{}: the whole trace opens in ui.perfetto.dev.", trace.name);
    if (std::isfinite(trace.clock_error_us) && trace.clock_error_us > 0)
      text += fmt::format(" Clocks of nodes agree within {} µs.", shown(trace.clock_error_us));
    if (trace.dropped_events > 0)
      text += fmt::format(" {} events were dropped.", trace.dropped_events);
    section.paragraphs.push_back(text);
  }
  return section;
}

}  // namespace halomesh
