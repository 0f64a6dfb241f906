// SPDX-License-Identifier: Apache-2.0
// The plot of a figure before anything is drawn: what its two axes show, where values lie on the
// page, and how much room the labels take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/apps/report/figure.hpp"
#include "src/apps/report/scale.hpp"
#include "src/apps/report/thinned.hpp"

namespace halomesh {

/// One direction of the page. Categories are the values 0, 1, 2, ... of a linear range.
struct PlotAxis {
  std::string label;
  bool categories = false;
  std::vector<Tick> ticks;
  Scale scale;
  double label_width = 0;  ///< of the widest tick label
  bool slanted = false;    ///< the labels of categories, for lack of room
};

struct SecondAxis {
  std::string label;
  std::vector<Tick> ticks;  ///< values are those of the first axis, labels those of the second
};

struct Plot {
  PlotAxis across, down;  ///< along the bottom and along the left of the plot
  std::optional<SecondAxis> top, right;
  double left = 0, right_edge = 0, top_edge = 0, bottom = 0;  ///< of the area of the marks
  double width = 0, height = 0;  ///< of the whole drawing, a legend below not included
  bool lying = false;            ///< y of a datum runs across
  std::size_t dropped = 0;       ///< data that a logarithmic axis cannot show

  Point at(double x, double y) const {
    return lying ? Point{across.scale(y), down.scale(x)} : Point{across.scale(x), down.scale(y)};
  }
  const Scale& values() const { return lying ? across.scale : down.scale; }
};

/// Whether a datum has a place in the figure: finite, and positive along logarithmic axes.
bool shown(const Figure& figure, const Datum& datum);

bool has_bars(const Figure& figure);

/// `head` pixels are left free above everything, for a title. Bars begin at 0; stacked ones are
/// always linear. Throws UsageError for a second scale whose factor is not positive.
Plot plot_of(const Figure& figure, double head);

}  // namespace halomesh
