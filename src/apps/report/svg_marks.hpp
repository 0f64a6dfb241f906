// SPDX-License-Identifier: Apache-2.0
// The marks of a plot as SVG: lines, points, bars, whiskers, spans and level lines.
#pragma once

#include <cstddef>
#include <string>

#include "src/apps/report/figure.hpp"
#include "src/apps/report/plot.hpp"

namespace halomesh {

/// Class of a series' colour: "c0" to "c7" in turn, "grey" for published ones.
std::string colour_class(const Figure& figure, std::size_t series);

/// Shapes of points and hatches of bars that the figure uses, to be put into <defs>. Their ids
/// begin with `id`.
std::string mark_definitions(const Figure& figure, const std::string& id);

/// A sample of a series' mark for a legend, 28 x 14 pixels from the origin.
std::string swatch(const Figure& figure, std::size_t series, const std::string& id);

/// A group for each series, in order, with class and data-series; of a timeline, with its spans.
/// Each mark of a series of at most 150 data has a <title> with its values.
std::string draw_marks(const Figure& figure, const Plot& plot, const std::string& id);

/// Level lines, each with its label at its upper end.
std::string draw_levels(const Figure& figure, const Plot& plot, const std::string& id);

}  // namespace halomesh
