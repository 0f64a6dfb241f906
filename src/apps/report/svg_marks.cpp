// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/svg_marks.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "src/apps/report/markup.hpp"

namespace halomesh {
namespace {

// Eight shapes around the origin, all filled, so that each also has a hollow form.
constexpr std::array<const char*, 8> kShapes = {
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8 4.6 3.4h-9.2z",
    "M0-5.2 5.2 0 0 5.2-5.2 0z",
    "M0 4.8 4.6-3.4h-9.2z",
    "M-1.6-4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
    "M-4.2-4.8h8.4L0 0l4.2 4.8h-8.4L0 0z",
    "M0-2.2 2.6-4.8 4.8-2.6 2.2 0 4.8 2.6 2.6 4.8 0 2.2-2.6 4.8-4.8 2.6-2.2 0-4.8-2.6-2.6-4.8z"};
// Eight hatches of a tile of 8 x 8 pixels; the first is plain.
constexpr std::array<const char*, 8> kHatches = {"",
                                                 "M-2 2l4-4M0 8l8-8M6 10l4-4",
                                                 "M1 2h2M5 6h2",
                                                 "M-2 6l4 4M0 0l8 8M6-2l4 4",
                                                 "M0 2h8M0 6h8",
                                                 "M2 0v8M6 0v8",
                                                 "M0 0l8 8M0 8l8-8",
                                                 "M0 4h8M4 0v8"};
constexpr std::size_t kMostTitled = 150, kMostShapes = 2000;
constexpr double kMostBarWidth = 56;

std::size_t shape_of(std::size_t series) { return (series + series / 8) % 8; }

bool filled(const Figure& figure, std::size_t series) {
  return !figure.spans.empty() || figure.series[series].mark == Mark::kBars;
}

std::string fill_of(const Figure& figure, std::size_t series, const std::string& id) {
  return figure.series[series].published || shape_of(series) == 0
             ? std::string("currentColor")
             : fmt::format("url(#{}-h{})", id, series);
}

std::string title_of(const Figure& figure, const Series& series, const Datum& datum) {
  const auto named = [](const std::string& label, const std::string& value) {
    return label.empty() ? value : label + ": " + value;
  };
  const bool category = !figure.categories.empty() && datum.x >= 0 &&
                        datum.x < static_cast<double>(figure.categories.size());
  std::string text = series.name.empty() ? "" : series.name + "\n";
  text += category ? figure.categories[static_cast<std::size_t>(datum.x)]
                   : named(figure.x.label, readable(datum.x));
  text += "\n" + named(figure.y.label, readable(datum.y));
  if (datum.low || datum.high) {
    text += fmt::format(" ({} to {})", readable(datum.low.value_or(datum.y)),
                        readable(datum.high.value_or(datum.y)));
  }
  if (!datum.label.empty()) text += "\n" + datum.label;
  return "<title>" + escaped(text) + "</title>";
}

std::string shape(const std::string& id, std::size_t series, Point at, const std::string& title) {
  return fmt::format("<use class=\"dot\" href=\"#{}-m{}\" x=\"{}\" y=\"{}\"{}\n", id, series,
                     px(at.x), px(at.y), title.empty() ? "/>" : ">" + title + "</use>");
}

/// The whisker along y of a datum whose bar begins at `base`; `x`: its place in pixels along the
/// other axis.
std::string whisker(const Plot& plot, const Datum& datum, double x, double base) {
  if (!datum.low && !datum.high) return "";
  const Range& range = plot.values().range();
  const auto within = [&](double value) {
    return std::clamp(base + value, range.least, range.most);
  };
  const double low = plot.values()(within(datum.low.value_or(datum.y)));
  const double high = plot.values()(within(datum.high.value_or(datum.y)));
  const std::string path =
      plot.lying ? fmt::format("M{} {}v8m0-4H{}m0-4v8", px(low), px(x - 4), px(high))
                 : fmt::format("M{} {}h8m-4 0V{}m-4 0h8", px(x - 4), px(low), px(high));
  return R"(<path class="whisker" d=")" + path + "\"/>\n";
}

/// The points of a series on the page; NaN in y where nothing is shown.
std::vector<Point> on_page(const Figure& figure, const Plot& plot, const Series& series) {
  std::vector<Point> points;
  points.reserve(series.data.size());
  for (const Datum& datum : series.data) {
    points.push_back(shown(figure, datum)
                         ? plot.at(datum.x, datum.y)
                         : Point{points.empty() ? 0 : points.back().x, std::nan("")});
  }
  return points;
}

std::string line_path(const std::vector<Point>& points, const std::vector<std::size_t>& kept,
                      bool dashed) {
  std::string path;
  bool open = false, alone = false;  // a point alone is a dot
  for (const std::size_t i : kept) {
    if (std::isnan(points[i].y)) {
      if (alone) path += "h0";
      open = alone = false;
      continue;
    }
    path += fmt::format("{}{} {}", open ? "L" : "M", px(points[i].x), px(points[i].y));
    alone = !open;
    open = true;
  }
  if (alone) path += "h0";
  return fmt::format("<path class=\"line{}\" d=\"{}\"/>\n", dashed ? " dashed" : "", path);
}

/// Where a line carries its shape: six places, which differ between series.
std::vector<std::size_t> marked(const std::vector<Point>& points,
                                const std::vector<std::size_t>& kept, const Plot& plot,
                                double phase) {
  std::vector<std::size_t> places;
  constexpr int kPlaces = 6;
  std::size_t at = 0;
  for (int k = 0; k < kPlaces; ++k) {
    const double x = plot.left + (plot.right_edge - plot.left) * (k + phase) / kPlaces;
    while (at < kept.size() && !(points[kept[at]].x >= x)) ++at;
    if (at < kept.size() && !std::isnan(points[kept[at]].y)) places.push_back(kept[at]);
  }
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

/// Very many points as one path of dots, one for each pixel that has any.
std::string dots_path(const std::vector<Point>& points) {
  std::set<std::pair<std::string, std::string>> drawn;
  std::string path;
  for (const Point& point : points) {
    if (std::isnan(point.y)) continue;
    const auto [place, added] = drawn.emplace(px(std::round(point.x)), px(std::round(point.y)));
    if (added) path += fmt::format("M{} {}h0", place->first, place->second);
  }
  return R"(<path class="dots" d=")" + path + "\"/>\n";
}

std::string draw_points(const Figure& figure, const Plot& plot, std::size_t index,
                        const std::string& id) {
  const Series& series = figure.series[index];
  const std::vector<Point> points = on_page(figure, plot, series);
  const bool titled = series.data.size() <= kMostTitled;
  std::string out;
  if (series.mark != Mark::kPoints) {
    const std::vector<std::size_t> kept = thinned(points);
    out += line_path(points, kept, series.dashed);
    if (series.mark == Mark::kLine && figure.series.size() > 1) {
      const double phase = (static_cast<double>(index % 8) + 0.5) /
                           static_cast<double>(std::min<std::size_t>(8, figure.series.size()));
      for (const std::size_t i : marked(points, kept, plot, phase))
        out += shape(id, index, points[i], "");
    }
  }
  const bool shapes = series.mark != Mark::kLine && points.size() <= kMostShapes;
  if (series.mark == Mark::kPoints && !shapes) out += dots_path(points);
  for (std::size_t i = 0; i < points.size() && (shapes || titled); ++i) {
    if (std::isnan(points[i].y)) continue;
    const Datum& datum = series.data[i];
    if (titled) out += whisker(plot, datum, plot.lying ? points[i].y : points[i].x, 0);
    const std::string title = titled ? title_of(figure, series, datum) : "";
    out += shapes ? shape(id, index, points[i], title)
                  : fmt::format("<circle class=\"hit\" cx=\"{}\" cy=\"{}\" r=\"6\">{}</circle>\n",
                                px(points[i].x), px(points[i].y), title);
  }
  return out;
}

/// Which place of a group of bars a series has.
struct BarPlace {
  double offset = 0, width = 0;  ///< of the bar's begin from the category's middle
};

BarPlace bar_place(const Figure& figure, const Plot& plot, std::size_t index) {
  const Scale& scale = plot.lying ? plot.down.scale : plot.across.scale;
  const double band = std::abs(scale(1) - scale(0));
  std::size_t bars = 0, before = 0;
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    if (figure.series[i].mark != Mark::kBars) continue;
    before += i < index ? 1 : 0;
    ++bars;
  }
  if (figure.stacked) bars = 1, before = 0;
  const auto count = static_cast<double>(bars);
  const double width = std::min(0.8 * band / count, kMostBarWidth);
  return {width * (static_cast<double>(before) - count / 2), width};
}

/// `reach`: where the stacks of the categories end so far, downwards and upwards.
std::string draw_bars(const Figure& figure, const Plot& plot, std::size_t index,
                      const std::string& id, std::map<double, std::pair<double, double>>& reach) {
  const Series& series = figure.series[index];
  const BarPlace place = bar_place(figure, plot, index);
  const Scale& values = plot.values();
  const Scale& slots = plot.lying ? plot.down.scale : plot.across.scale;
  std::string out, whiskers;
  for (const Datum& datum : series.data) {
    if (!shown(figure, datum)) continue;
    auto& [down, up] = reach[datum.x];
    double& end = datum.y < 0 ? down : up;
    const double base = figure.stacked ? end : 0;
    end += datum.y;
    const double from = values(values.range().logarithmic ? values.range().least : base);
    const double to = values(base + datum.y);
    const double begin = slots(datum.x) + place.offset;
    const double low = std::min(from, to), length = std::abs(to - from);
    out += fmt::format(
        "<rect class=\"bar\" fill=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>\n",
        fill_of(figure, index, id), px(plot.lying ? low : begin), px(plot.lying ? begin : low),
        px(plot.lying ? length : place.width), px(plot.lying ? place.width : length),
        title_of(figure, series, datum));
    whiskers += whisker(plot, datum, begin + place.width / 2, base);
  }
  return out + whiskers;
}

std::string draw_spans(const Figure& figure, const Plot& plot, std::size_t index,
                       const std::string& id) {
  const double height = std::abs(plot.down.scale(1) - plot.down.scale(0)) * 0.76;
  std::map<std::size_t, double> drawn_to;  // of each row: what is narrower than a pixel is merged
  std::string out;
  for (const Span& span : figure.spans) {
    if (span.series != index || span.row >= figure.categories.size()) continue;
    const double begin = plot.across.scale(span.begin), end = plot.across.scale(span.end);
    const auto last = drawn_to.find(span.row);
    if (last != drawn_to.end() && end < last->second + 0.3) continue;
    drawn_to[span.row] = end;
    const std::string text = fmt::format(
        "{}\n{}{}\n{} to {}", figure.categories[span.row], figure.series[index].name,
        span.label.empty() ? "" : ": " + span.label, readable(span.begin), readable(span.end));
    out += fmt::format(
        "<rect class=\"span\" fill=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" "
        "height=\"{}\"><title>{}</title></rect>\n",
        fill_of(figure, index, id), px(begin),
        px(plot.down.scale(static_cast<double>(span.row)) - height / 2),
        px(std::max(end - begin, 0.4)), px(height), escaped(text));
  }
  return out;
}

/// The part of a level line that is within the plot.
std::vector<Point> level_points(const Plot& plot, const LevelLine& level) {
  const Range& across = plot.across.scale.range();
  const Range& down = plot.down.scale.range();
  const bool straight = across.logarithmic && down.logarithmic;
  const int pieces = straight ? 512 : 256;
  std::vector<Point> points;
  for (int i = 0; i <= pieces; ++i) {
    const double share = static_cast<double>(i) / pieces;
    const double x = across.logarithmic ? across.least * std::pow(across.most / across.least, share)
                                        : across.least + share * (across.most - across.least);
    const double y = level.factor * std::pow(x, level.power);
    if (std::isfinite(y) && y >= down.least && y <= down.most) points.push_back(plot.at(x, y));
  }
  if (straight && points.size() > 2) points = {points.front(), points.back()};
  return points;
}

}  // namespace

std::string colour_class(const Figure& figure, std::size_t series) {
  return figure.series[series].published ? "grey" : fmt::format("c{}", series % 8);
}

std::string mark_definitions(const Figure& figure, const std::string& id) {
  std::string out;
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    if (!filled(figure, i)) {
      const bool hollow = figure.series[i].dashed || figure.series[i].published;
      out += fmt::format("<path id=\"{}-m{}\"{} d=\"{}\"/>\n", id, i,
                         hollow ? " class=\"hollow\"" : "", kShapes.at(shape_of(i)));
    } else if (fill_of(figure, i, id) != "currentColor") {
      out += fmt::format(
          "<pattern id=\"{}-h{}\" class=\"{}\" width=\"8\" height=\"8\" "
          "patternUnits=\"userSpaceOnUse\">"
          "<rect fill=\"currentColor\" width=\"8\" height=\"8\"/><path class=\"hatch\" "
          "d=\"{}\"/></pattern>\n",
          id, i, colour_class(figure, i), kHatches.at(shape_of(i)));
    }
  }
  return out;
}

std::string swatch(const Figure& figure, std::size_t series, const std::string& id) {
  if (filled(figure, series)) {
    return fmt::format(R"(<rect class="bar" fill="{}" x="6" y="0" width="16" height="14"/>)",
                       fill_of(figure, series, id));
  }
  const Series& of = figure.series[series];
  std::string out;
  if (of.mark != Mark::kPoints)
    out = fmt::format(R"(<path class="line{}" d="M0 7H28"/>)", of.dashed ? " dashed" : "");
  return out + shape(id, series, {14, 7}, "");
}

std::string draw_marks(const Figure& figure, const Plot& plot, const std::string& id) {
  std::map<double, std::pair<double, double>> reach;
  // Bars first, so that lines and points lie on top of them.
  std::array<std::string, 2> layers;
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    const bool bars = filled(figure, i);
    std::string& layer = layers.at(bars ? 0 : 1);
    layer +=
        fmt::format("<g class=\"series {}\" data-series=\"{}\">\n", colour_class(figure, i), i);
    if (!figure.spans.empty()) {
      layer += draw_spans(figure, plot, i, id);
    } else {
      layer += bars ? draw_bars(figure, plot, i, id, reach) : draw_points(figure, plot, i, id);
    }
    layer += "</g>\n";
  }
  return layers[0] + layers[1];
}

std::string draw_levels(const Figure& figure, const Plot& plot, const std::string& id) {
  std::string lines, labels;
  std::vector<Point> labelled;
  if (plot.across.categories || plot.down.categories) return "";
  for (const LevelLine& level : figure.levels) {
    const std::vector<Point> points = level_points(plot, level);
    if (points.size() < 2) continue;
    std::vector<std::size_t> all(points.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    std::string path = line_path(points, all, false);
    path.replace(path.find("line"), 4, "level");
    lines += path;
    // The label hangs below the line at its upper end: there it is within the plot.
    const bool rises = points.back().y <= points.front().y;
    const Point end = rises ? points.back() : points.front();
    const Point next = rises ? points[points.size() - 2] : points[1];
    const double angle = std::atan2(rises ? end.y - next.y : next.y - end.y,
                                    rises ? end.x - next.x : next.x - end.x);
    const auto touches = [&](const Point& other) {
      return std::hypot(other.x - end.x, other.y - end.y) < 16;
    };
    if (std::any_of(labelled.begin(), labelled.end(), touches)) continue;
    labelled.push_back(end);
    labels += fmt::format(
        "<text class=\"level-label\" x=\"{}\" y=\"12\" text-anchor=\"{}\" transform=\"translate({} "
        "{}) rotate({})\">{}</text>\n",
        rises ? "-16" : "16", rises ? "end" : "start", px(end.x), px(end.y),
        px(angle * 180 / std::acos(-1.0)), escaped(level.label));
  }
  return R"(<g class="levels" clip-path="url(#)" + id + "-clip)\">\n" + lines + labels + "</g>\n";
}

}  // namespace halomesh
