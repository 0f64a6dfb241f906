// SPDX-License-Identifier: Apache-2.0
// Figures and tables as data: what a report shows, independent of how it is drawn. Every figure can
// be drawn as SVG and written as CSV from the same numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace halomesh {

struct Axis {
  std::string label{};       ///< with its unit, "time in s"
  bool logarithmic = false;  ///< base 10; values must be positive
};

/// A second scale of the same axis: shown value = value x factor.
struct SecondScale {
  std::string label{};
  double factor = 1;
};

/// One mark. NaN in y: a gap in a line.
struct Datum {
  double x = 0, y = 0;
  std::optional<double> low{}, high{};  ///< whisker along y
  std::string label{};  ///< shown on hover and in the table; "" for the numbers alone
};

enum class Mark { kLine, kPoints, kLineAndPoints, kBars };

struct Series {
  std::string name{};
  Mark mark = Mark::kLine;
  std::vector<Datum> data{};
  bool published = false;  ///< a published point for comparison: drawn in grey
  bool dashed = false;
};

/// A line of constant y = factor * x^power, labelled; straight where both axes are logarithmic.
struct LevelLine {
  std::string label{};
  double factor = 1, power = 1;
};

/// An interval of a row of a timeline, in the units of x.
struct Span {
  std::size_t row = 0;     ///< index into Figure::categories
  std::size_t series = 0;  ///< index into Figure::series: names its colour
  double begin = 0, end = 0;
  std::string label{};
};

struct Figure {
  std::string id{};  ///< of the file and the anchor: "time-to-solution"
  std::string title{}, caption{};
  Axis x{}, y{};
  std::optional<SecondScale> top{}, right{};
  /// Bars, if any series has them: one group per category, x of a datum is the category's index.
  /// In a timeline: the rows.
  std::vector<std::string> categories{};
  bool stacked = false;     ///< bars of one category on top of each other, instead of side by side
  bool horizontal = false;  ///< bars lie; categories downwards
  std::vector<Series> series{};
  std::vector<LevelLine> levels{};
  std::vector<Span> spans{};  ///< not empty: a timeline
};

/// Text cells; numbers are formatted by whoever makes the table.
struct Table {
  std::string id{}, title{}, caption{};
  std::vector<std::string> columns{};
  std::vector<bool> numeric{};  ///< per column: aligned to the right
  std::vector<std::vector<std::string>> rows{};
  std::vector<std::string> notes{};
  bool folded = false;  ///< shown on request: long, and of interest to few
};

/// One block of a page, in the order shown: the text, then figures, then tables.
struct Section {
  std::string id{}, title{};
  std::vector<std::string> paragraphs{};
  std::vector<Figure> figures{};
  std::vector<Table> tables{};
};

struct Page {
  std::string title{};
  std::vector<std::string> verdict{};   ///< a sentence for each run
  std::vector<std::string> warnings{};  ///< shown first
  std::vector<Section> sections{};
  std::string raw_json{};  ///< the numbers behind the page, inlined for scripts; may be ""
};

}  // namespace halomesh
