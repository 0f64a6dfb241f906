// SPDX-License-Identifier: Apache-2.0
// The numbers of a figure as text: for other programs, and for people.
#pragma once

#include <cstddef>
#include <string>

#include "src/apps/report/figure.hpp"

namespace halomesh {

/// One line per datum (RFC 4180, with a header), numbers as they read back exactly. Columns:
/// series, x (the category's name where there are categories), y, low, high, label; of a timeline
/// row, series, begin, end, label. What is not there is empty, NaN too.
std::string figure_csv(const Figure& figure);

/// The same to read: one row per x and one column per series where all have the same x, otherwise
/// one row per datum. Evenly thinned to at most `most_rows` > 0 (one row for each series at least),
/// with a note that says so.
Table figure_table(const Figure& figure, std::size_t most_rows);

}  // namespace halomesh
