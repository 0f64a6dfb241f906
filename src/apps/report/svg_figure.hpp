// SPDX-License-Identifier: Apache-2.0
// A figure drawn as SVG.
#pragma once

#include <string>

#include "src/apps/report/figure.hpp"

namespace halomesh {

/// A whole SVG document: with its title, a description for screen readers, a legend, and its own
/// style, which follows the light or dark scheme of its viewer. Equal figures give equal documents.
/// Values that a logarithmic axis cannot show are left out and counted in a note.
std::string draw_svg(const Figure& figure);

/// The same as an element for a page that has `figure_style()`, and without title and legend, which
/// the page shows as text. `id` is unique on the page; ids within the element begin with it.
std::string draw_inline_svg(const Figure& figure, const std::string& id);

/// The legend's sample of a series of a figure drawn with `id`, as an element of its own.
std::string draw_swatch(const Figure& figure, std::size_t series, const std::string& id);

/// Whether the marks need a legend.
bool needs_legend(const Figure& figure);

}  // namespace halomesh
