// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "joined.hpp"
#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kMostColumns = 12;  // runs in the table of differences

struct NamedOptions {
  std::string name;
  std::vector<std::pair<std::string, std::string>> values;

  std::string of(const std::string& option) const {
    for (const auto& [key, value] : values)
      if (key == option) return value;
    return "-";
  }
};

template <class Json>
NamedOptions options_in(const std::string& name, const Json& record) {
  NamedOptions options{name, {}};
  if (!record.is_object() || !record.contains("options")) return options;
  for (const auto& [key, value] : record["options"].items())
    options.values.emplace_back(
        key, value.is_string() ? value.template get<std::string>() : value.dump());
  return options;
}

std::vector<NamedOptions> all_options(const ReportInput& input) {
  std::vector<NamedOptions> all;
  for (const RunNumbers& run : input.runs)
    if (run.files != nullptr) all.push_back(options_in(run.name, run.files->run()));
  if (all.empty())  // options of bench mean other things: only alike ones are compared
    for (const BenchFile& bench : input.benches)
      all.push_back(options_in(bench.name, bench.record));
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const NamedOptions& one) { return one.values.empty(); }),
            all.end());
  return all;
}

/// Where a run is written differs always and says nothing.
bool is_place(const std::string& option) { return option == "out" || option == "json"; }

Table differences(const std::vector<NamedOptions>& all) {
  std::vector<std::string> columns = {"option"};
  for (std::size_t i = 0; i < std::min(all.size(), kMostColumns); ++i)
    columns.push_back(all[i].name);
  Table table = new_table("options-different", "Options that differ", columns,
                          std::string(columns.size(), '<'), "Options with different values.");
  std::set<std::string> seen;
  for (const NamedOptions& one : all)
    for (const auto& [option, value] : one.values) {
      if (is_place(option) || !seen.insert(option).second) continue;
      std::vector<std::string> row = {option};
      std::set<std::string> values;
      for (const NamedOptions& other : all) {
        values.insert(other.of(option));
        if (row.size() < columns.size()) row.push_back(other.of(option));
      }
      if (values.size() > 1) table.rows.push_back(row);
    }
  if (all.size() > kMostColumns)
    table.notes.push_back(
        fmt::format("Runs not shown in this table: {}.", all.size() - kMostColumns));
  return table;
}

}  // namespace

Section options_section(const ReportInput& input) {
  Section section{"options", "Options", {}, {}, {}};
  const std::vector<NamedOptions> all = all_options(input);
  if (all.empty()) return section;
  if (all.size() > 1) {
    Table table = differences(all);
    if (table.rows.empty())
      section.paragraphs.emplace_back("All runs have the same options.");
    else
      section.tables.push_back(std::move(table));
  }
  Table table = new_table("options", all.size() > 1 ? "Options of " + all[0].name : "Options",
                          {"option", "value"}, "<<", "All options with their values.");
  table.folded = true;
  for (const auto& [option, value] : all[0].values) table.rows.push_back({option, value});
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace halomesh
