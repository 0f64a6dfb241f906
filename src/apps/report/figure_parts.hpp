// SPDX-License-Identifier: Apache-2.0
// Short ways to make figures and tables.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "src/apps/report/figure.hpp"

namespace halomesh {

/// Where the names and numbers of the figures and tables come from.
inline constexpr const char* kPaper = "Farrell et al., arXiv:2110.11466";

inline Figure new_figure(std::string id, std::string title, Axis x, Axis y, std::string caption) {
  Figure figure;
  figure.id = std::move(id);
  figure.title = std::move(title);
  figure.caption = std::move(caption);
  figure.x = std::move(x);
  figure.y = std::move(y);
  return figure;
}

/// `alignment` has a character per column: '<' for text, '>' for numbers.
inline Table new_table(std::string id, std::string title, std::vector<std::string> columns,
                       const std::string& alignment, std::string caption) {
  Table table;
  table.id = std::move(id);
  table.title = std::move(title);
  table.caption = std::move(caption);
  table.columns = std::move(columns);
  for (const char c : alignment) table.numeric.push_back(c == '>');
  return table;
}

inline Series new_series(std::string name, Mark mark, std::vector<Datum> data = {}) {
  Series series;
  series.name = std::move(name);
  series.mark = mark;
  series.data = std::move(data);
  return series;
}

inline Datum point(double x, double y, std::string label = {}) {
  Datum datum;
  datum.x = x;
  datum.y = y;
  datum.label = std::move(label);
  return datum;
}

inline Datum with_range(Datum datum, double low, double high) {
  if (low < high) {
    datum.low = low;
    datum.high = high;
  }
  return datum;
}

inline Series grey(Series series) {
  series.published = true;
  return series;
}

/// Adds the series if it has a point that can be drawn.
inline void add_series(Figure& figure, Series series) {
  const bool any = std::any_of(series.data.begin(), series.data.end(), [](const Datum& datum) {
    return std::isfinite(datum.x) && std::isfinite(datum.y);
  });
  if (any) figure.series.push_back(std::move(series));
}

/// Least and most of value(datum) over all finite positive ones; {1, 1} when there is none.
template <class Value>
std::pair<double, double> range_over(const Figure& figure, const Value& value) {
  double least = INFINITY, most = 0;
  for (const Series& series : figure.series)
    for (const Datum& datum : series.data)
      if (const double v = value(datum); std::isfinite(v) && v > 0) {
        least = std::min(least, v);
        most = std::max(most, v);
      }
  return most > 0 ? std::pair(least, most) : std::pair(1.0, 1.0);
}

/// The powers of ten around [least, most].
inline std::vector<double> decades(std::pair<double, double> range) {
  std::vector<double> values;
  const double last = std::ceil(std::log10(range.second));
  for (double power = std::floor(std::log10(range.first)); power <= last && values.size() < 20;
       ++power)
    values.push_back(std::pow(10, power));
  return values;
}

}  // namespace halomesh
