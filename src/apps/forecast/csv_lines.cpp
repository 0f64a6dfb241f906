// SPDX-License-Identifier: Apache-2.0
// Small tables: see csv_lines.hpp.
#include "src/apps/forecast/csv_lines.hpp"

#include <fstream>
#include <sstream>

#include "error.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {

double CsvLine::number(std::size_t i, double least) const {
  const auto value = from_text<double>(cells.at(i));
  if (!value || *value < least)
    throw UsageError(
        fmt::format("{}: '{}' is not a number of at least {}", where, cells.at(i), least),
        "correct the value");
  return *value;
}

std::vector<CsvLine> read_csv(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in)
    throw UsageError(fmt::format("the table {} cannot be read", file.c_str()),
                     "give the path of a CSV file");
  std::vector<CsvLine> lines;
  std::size_t columns = 0;
  int number_of_line = 0;
  for (std::string text; std::getline(in, text);) {
    CsvLine line{{}, fmt::format("{}:{}", file.c_str(), ++number_of_line)};
    if (text.empty() || text[0] == '#') continue;
    std::istringstream cells(text);
    for (std::string cell; std::getline(cells, cell, ',');) line.cells.push_back(cell);
    if (text.back() == ',') line.cells.emplace_back();
    if (columns == 0) {
      columns = line.cells.size();
      continue;
    }
    if (line.cells.size() != columns)
      throw UsageError(fmt::format("{}: {} values, but the first line names {} columns", line.where,
                                   line.cells.size(), columns),
                       "give a value for each column");
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace halomesh
