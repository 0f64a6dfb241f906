// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/plot.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "error.hpp"
#include "src/apps/report/markup.hpp"

namespace halomesh {
namespace {

// All lengths in pixels.
constexpr double kWidth = 680, kPlotHeight = 300;
constexpr double kLabelRoom = 22;  // an axis label across its axis
constexpr double kTickRoom = 8;    // between a tick label and the plot
constexpr double kMargin = 10, kLeastRight = 18;
constexpr double kTextHeight = 15;
constexpr double kBarHeight = 14, kRowHeight = 24;
constexpr std::size_t kMostCharacters = 28;
constexpr double kSlant = 0.64;  // sine of 40 degrees

/// Grows around values.
struct Extent {
  double least = std::numeric_limits<double>::infinity(), most = -least;

  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  Range range(bool logarithmic) const {
    if (least <= most) return {least, most, logarithmic};
    return {logarithmic ? 1.0 : 0.0, logarithmic ? 10.0 : 1.0, logarithmic};
  }
};

bool fits(const Axis& axis, double value) {
  return std::isfinite(value) && (!axis.logarithmic || value > 0);
}

bool timeline(const Figure& figure) { return !figure.spans.empty(); }

Extent x_extent(const Figure& figure) {
  Extent extent;
  for (const Span& span : figure.spans) {
    extent.add(span.begin);
    extent.add(span.end);
  }
  if (timeline(figure)) return extent;
  for (const Series& series : figure.series) {
    for (const Datum& datum : series.data) {
      if (shown(figure, datum)) extent.add(datum.x);
    }
  }
  return extent;
}

/// The sums that stacked bars reach, upwards and downwards.
void add_stacks(const Figure& figure, Extent& extent) {
  std::map<double, std::pair<double, double>> reach;
  for (const Series& series : figure.series) {
    if (series.mark != Mark::kBars) continue;
    for (const Datum& datum : series.data) {
      if (!shown(figure, datum)) continue;
      auto& [down, up] = reach[datum.x];
      const double base = datum.y < 0 ? down : up;
      for (const double end : {datum.y, datum.low.value_or(0), datum.high.value_or(0)})
        extent.add(base + end);
      (datum.y < 0 ? down : up) += datum.y;
    }
  }
}

Extent y_extent(const Figure& figure) {
  Extent extent;
  const bool stacked = figure.stacked && has_bars(figure);
  if (has_bars(figure) && (stacked || !figure.y.logarithmic)) extent.add(0);
  if (stacked) add_stacks(figure, extent);
  for (const Series& series : figure.series) {
    if (stacked && series.mark == Mark::kBars) continue;
    for (const Datum& datum : series.data) {
      if (!shown(figure, datum)) continue;
      extent.add(datum.y);
      for (const auto& end : {datum.low, datum.high}) {
        if (end && fits(figure.y, *end)) extent.add(*end);
      }
    }
  }
  return extent;
}

std::size_t count_dropped(const Figure& figure) {
  std::size_t dropped = 0;
  for (const Series& series : figure.series) {
    for (const Datum& datum : series.data) {
      dropped += std::isfinite(datum.x) && std::isfinite(datum.y) && !shown(figure, datum) ? 1 : 0;
    }
  }
  return dropped;
}

/// Some room beside the first and the last point.
Range padded(Range range, bool points) {
  range = widened(range);
  if (!points) return range;
  if (range.logarithmic) {
    const double room = std::pow(range.most / range.least, 0.04);
    return {range.least / room, range.most * room, true};
  }
  const double room = 0.03 * (range.most - range.least);
  return {range.least - room, range.most + room, false};
}

double widest(const std::vector<Tick>& ticks) {
  double width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(tick.label));
  return width;
}

PlotAxis value_axis(const std::string& label, const Range& range, int most_ticks) {
  PlotAxis axis;
  axis.label = label;
  axis.ticks = ticks_of(range, most_ticks);
  axis.scale = Scale(range, 0, 1);
  axis.label_width = widest(axis.ticks);
  return axis;
}

PlotAxis category_axis(const std::string& label, const std::vector<std::string>& names) {
  PlotAxis axis;
  axis.label = label;
  axis.categories = true;
  for (const std::string& name : names) {
    axis.ticks.push_back(
        {static_cast<double>(axis.ticks.size()), shortened(name, kMostCharacters)});
  }
  axis.scale = Scale({-0.5, static_cast<double>(names.size()) - 0.5, false}, 0, 1);
  axis.label_width = widest(axis.ticks);
  return axis;
}

SecondAxis second_axis(const SecondScale& second, const Range& first, int most_ticks) {
  if (!(second.factor > 0)) {
    throw UsageError(
        fmt::format("second scale \"{}\": its factor is {}", second.label, second.factor),
        "factors are positive");
  }
  SecondAxis axis;
  axis.label = second.label;
  axis.ticks = ticks_of(
      {first.least * second.factor, first.most * second.factor, first.logarithmic}, most_ticks);
  for (Tick& tick : axis.ticks) tick.value /= second.factor;
  return axis;
}

void make_axes(const Figure& figure, Plot& plot) {
  const bool points = std::any_of(figure.series.begin(), figure.series.end(),
                                  [](const Series& series) { return series.mark != Mark::kLine; });
  const bool y_log = figure.y.logarithmic && !(figure.stacked && has_bars(figure));
  plot.lying = figure.horizontal && !timeline(figure);
  const auto y_axis = [&](int ticks) {
    return value_axis(figure.y.label, rounded(y_extent(figure).range(y_log), ticks), ticks);
  };
  const auto x_axis = [&](int ticks) {
    if (!figure.categories.empty()) return category_axis(figure.x.label, figure.categories);
    return value_axis(
        figure.x.label,
        padded(x_extent(figure).range(figure.x.logarithmic), points && !timeline(figure)), ticks);
  };
  if (timeline(figure)) {
    plot.across = value_axis(figure.x.label, widened(x_extent(figure).range(false)), 8);
    plot.down = category_axis("", figure.categories);
  } else {
    plot.across = plot.lying ? y_axis(7) : x_axis(8);
    plot.down = plot.lying ? x_axis(8) : y_axis(7);
  }
  if (figure.top && !plot.across.categories)
    plot.top = second_axis(*figure.top, plot.across.scale.range(), 8);
  if (figure.right && !plot.down.categories)
    plot.right = second_axis(*figure.right, plot.down.scale.range(), 7);
}

double plot_height(const Figure& figure, const Plot& plot) {
  if (!plot.down.categories) return kPlotHeight;
  const auto rows = static_cast<double>(std::max<std::size_t>(1, figure.categories.size()));
  const auto bars = static_cast<double>(
      std::count_if(figure.series.begin(), figure.series.end(),
                    [](const Series& series) { return series.mark == Mark::kBars; }));
  if (timeline(figure) || figure.stacked) return rows * kRowHeight;
  return rows * std::max(kRowHeight, bars * kBarHeight + 8);
}

/// Room below the plot; slants the labels of categories that would touch, and leaves some out where
/// even then they would.
double room_below(Plot& plot) {
  PlotAxis& axis = plot.across;
  double room = kTickRoom + kTextHeight;
  if (axis.categories && !axis.ticks.empty()) {
    const double band = (plot.right_edge - plot.left) / static_cast<double>(axis.ticks.size());
    axis.slanted = axis.label_width + 8 > band;
    if (axis.slanted) {
      room = kTickRoom + kTextHeight + kSlant * axis.label_width;
      const auto stride = static_cast<std::size_t>(std::ceil((kTextHeight / kSlant) / band));
      for (std::size_t i = 0; i < axis.ticks.size(); ++i) {
        if (i % stride != 0) axis.ticks[i].label.clear();
      }
    }
  }
  return room + (axis.label.empty() ? 0 : kLabelRoom);
}

}  // namespace

bool shown(const Figure& figure, const Datum& datum) {
  const bool linear = figure.stacked && has_bars(figure);
  const bool categories = !figure.categories.empty();
  return (categories ? std::isfinite(datum.x) : fits(figure.x, datum.x)) &&
         (linear ? std::isfinite(datum.y) : fits(figure.y, datum.y));
}

bool has_bars(const Figure& figure) {
  return std::any_of(figure.series.begin(), figure.series.end(),
                     [](const Series& series) { return series.mark == Mark::kBars; });
}

Plot plot_of(const Figure& figure, double head) {
  Plot plot;
  plot.dropped = count_dropped(figure);
  make_axes(figure, plot);
  plot.width = kWidth;
  plot.left =
      kMargin + plot.down.label_width + kTickRoom + (plot.down.label.empty() ? 0 : kLabelRoom);
  double beside =
      std::max(kLeastRight, plot.across.categories ? 0 : plot.across.label_width / 2 + 2);
  if (plot.right) beside = kMargin + widest(plot.right->ticks) + kTickRoom + kLabelRoom;
  plot.right_edge = kWidth - beside;
  plot.top_edge = head + kMargin + (plot.top ? kTextHeight + kTickRoom + kLabelRoom : 0);
  plot.bottom = plot.top_edge + plot_height(figure, plot);
  plot.height = plot.bottom + room_below(plot) + kMargin / 2;
  if (plot.across.slanted) {  // the first label reaches to the left of the plot
    plot.left = std::max(plot.left, std::sqrt(1 - kSlant * kSlant) * plot.across.label_width);
  }
  plot.across.scale = Scale(plot.across.scale.range(), plot.left, plot.right_edge);
  plot.down.scale = plot.down.categories
                        ? Scale(plot.down.scale.range(), plot.top_edge, plot.bottom)
                        : Scale(plot.down.scale.range(), plot.bottom, plot.top_edge);
  return plot;
}

}  // namespace halomesh
