// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/figure_csv.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "src/apps/report/scale.hpp"

namespace halomesh {
namespace {

using Cells = std::vector<std::string>;

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

std::string exact(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

std::string line(const Cells& cells) {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) out += (i == 0 ? "" : ",") + quoted(cells[i]);
  return out + "\r\n";
}

std::string x_label(const Figure& figure) {
  if (!figure.x.label.empty()) return figure.x.label;
  return figure.categories.empty() ? "x" : "category";
}

std::string y_label(const Figure& figure) { return figure.y.label.empty() ? "y" : figure.y.label; }

template <class Write>
std::string x_text(const Figure& figure, double x, const Write& write) {
  const bool category =
      x >= 0 && x < static_cast<double>(figure.categories.size()) && x == std::floor(x);
  return category ? figure.categories[static_cast<std::size_t>(x)] : write(x);
}

const std::string& name_at(const std::vector<std::string>& names, std::size_t i) {
  static const std::string kNone;
  return i < names.size() ? names[i] : kNone;
}

/// A value with its whisker: "3.2 (3 to 3.5)".
std::string with_whisker(const Datum& datum) {
  std::string text = readable(datum.y);
  if (datum.low || datum.high) {
    text += fmt::format(" ({} to {})", readable(datum.low.value_or(datum.y)),
                        readable(datum.high.value_or(datum.y)));
  }
  return datum.label.empty() ? text : text + ", " + datum.label;
}

bool same_x(const Figure& figure) {
  const std::vector<Datum>& first = figure.series.front().data;
  const auto falls = [](const Datum& a, const Datum& b) { return !(a.x < b.x); };
  if (std::adjacent_find(first.begin(), first.end(), falls) != first.end()) return false;
  return std::all_of(figure.series.begin(), figure.series.end(), [&](const Series& series) {
    return std::equal(series.data.begin(), series.data.end(), first.begin(), first.end(),
                      [](const Datum& a, const Datum& b) { return a.x == b.x; });
  });
}

/// Of `count` rows every which one to show, so that at most `most` are.
std::size_t stride_for(std::size_t count, std::size_t most) {
  return std::max<std::size_t>(1, (count + most - 1) / most);
}

void add_rows_by_x(const Figure& figure, std::size_t stride, Table& table) {
  table.columns = {x_label(figure)};
  table.numeric = {figure.categories.empty()};
  for (const Series& series : figure.series) {
    table.columns.push_back(series.name.empty() ? y_label(figure) : series.name);
    table.numeric.push_back(true);
  }
  for (std::size_t i = 0; i < figure.series.front().data.size(); i += stride) {
    Cells row = {x_text(figure, figure.series.front().data[i].x, readable)};
    for (const Series& series : figure.series) row.push_back(with_whisker(series.data[i]));
    table.rows.push_back(std::move(row));
  }
}

void add_rows_by_datum(const Figure& figure, std::size_t most_rows, Table& table) {
  table.columns = {"series", x_label(figure), y_label(figure)};
  table.numeric = {false, figure.categories.empty(), true};
  for (const Series& series : figure.series) {
    const std::size_t stride = stride_for(series.data.size(), most_rows);
    for (std::size_t i = 0; i < series.data.size(); i += stride) {
      const Datum& datum = series.data[i];
      table.rows.push_back({series.name, x_text(figure, datum.x, readable), with_whisker(datum)});
    }
  }
}

void add_spans(const Figure& figure, std::size_t stride, Table& table) {
  table.columns = {"row", "series", "begin", "end", "what"};
  table.numeric = {false, false, true, true, false};
  for (std::size_t i = 0; i < figure.spans.size(); i += stride) {
    const Span& span = figure.spans[i];
    table.rows.push_back({name_at(figure.categories, span.row),
                          span.series < figure.series.size() ? figure.series[span.series].name : "",
                          readable(span.begin), readable(span.end), span.label});
  }
}

}  // namespace

std::string figure_csv(const Figure& figure) {
  std::string out;
  if (!figure.spans.empty()) {
    out = line({"row", "series", "begin", "end", "label"});
    for (const Span& span : figure.spans) {
      out += line({name_at(figure.categories, span.row),
                   span.series < figure.series.size() ? figure.series[span.series].name : "",
                   exact(span.begin), exact(span.end), span.label});
    }
    return out;
  }
  out = line({"series", x_label(figure), y_label(figure), "low", "high", "label"});
  for (const Series& series : figure.series) {
    for (const Datum& datum : series.data) {
      out += line({series.name, x_text(figure, datum.x, exact), exact(datum.y),
                   datum.low ? exact(*datum.low) : "", datum.high ? exact(*datum.high) : "",
                   datum.label});
    }
  }
  return out;
}

Table figure_table(const Figure& figure, std::size_t most_rows) {
  Table table;
  table.title = "Data: " + figure.title;
  std::size_t count = 0;
  if (!figure.spans.empty()) {
    count = figure.spans.size();
    add_spans(figure, stride_for(count, most_rows), table);
  } else if (!figure.series.empty() && same_x(figure)) {
    count = figure.series.front().data.size();
    add_rows_by_x(figure, stride_for(count, most_rows), table);
  } else {
    for (const Series& series : figure.series) count += series.data.size();
    add_rows_by_datum(
        figure,
        std::max<std::size_t>(1, most_rows / std::max<std::size_t>(1, figure.series.size())),
        table);
  }
  if (table.rows.size() < count) {
    table.notes.push_back(
        fmt::format("{} of {} rows, evenly spaced; --figures DIR writes all of them as CSV.",
                    table.rows.size(), readable(static_cast<double>(count))));
  }
  return table;
}

}  // namespace halomesh
