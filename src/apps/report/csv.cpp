// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/csv.hpp"

#include <utility>

namespace halomesh {

std::vector<std::vector<std::string>> read_csv(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  bool quoted = false;
  const auto end_row = [&] {
    if (row.empty() && cell.empty()) return;
    row.push_back(std::exchange(cell, {}));
    rows.push_back(std::exchange(row, {}));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"')
      cell += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      row.push_back(std::exchange(cell, {}));
    else if (c == '\n' && !quoted)
      end_row();
    else if (c != '\r' || quoted)
      cell += c;
  }
  end_row();
  return rows;
}

}  // namespace halomesh
