// SPDX-License-Identifier: Apache-2.0
// A table for a terminal: columns as wide as their widest cell.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace halomesh {

/// Rows of cells below a header.
class TextTable {
 public:
  /// `alignment` has a character per column: '<' for text, '>' for numbers.
  TextTable(std::vector<std::string> header, std::string alignment)
      : alignment_(std::move(alignment)), rows_{std::move(header)} {}

  /// A row may have fewer cells than the header.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  friend std::ostream& operator<<(std::ostream& out, const TextTable& table) {
    std::vector<std::size_t> widths(table.alignment_.size());
    for (const auto& row : table.rows_)
      for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    for (const auto& row : table.rows_) {
      std::string line;
      for (std::size_t c = 0; c < row.size(); ++c)
        line += table.alignment_[c] == '<' ? fmt::format("  {:<{}}", row[c], widths[c])
                                           : fmt::format("  {:>{}}", row[c], widths[c]);
      out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
    }
    return out;
  }

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace halomesh
