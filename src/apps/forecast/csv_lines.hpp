// SPDX-License-Identifier: Apache-2.0
// Reads small tables: lines of values separated by commas, with comments after #.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace halomesh {

/// A line of a table and its place.
struct CsvLine {
  std::vector<std::string> cells;
  std::string where;  ///< "FILE:LINE"

  /// The number in cell `i`, at least `least`. Throws UsageError naming place, value and bound.
  double number(std::size_t i, double least) const;
};

/// All lines except empty ones, comments, and the first, which names the columns. Throws UsageError
/// for a file that cannot be read, or a line whose number of cells differs from the first.
std::vector<CsvLine> read_csv(const std::filesystem::path& file);

}  // namespace halomesh
