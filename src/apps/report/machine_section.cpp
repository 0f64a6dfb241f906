// SPDX-License-Identifier: Apache-2.0
// What was run, where and with which versions: the rows of Tables 2 and 3 of Farrell et al.,
// arXiv:2110.11466, and what it takes to run it again.
#include <algorithm>
#include <cmath>
#include <set>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

Table benchmark(const ReportInput& input) {
  Table table =
      new_table("benchmark", "What was trained",
                {"runs", "network", "input", "parameters", "operations per sample",
                 "training samples", "validation samples", "metric", "target", "number of runs"},
                "<<>>>>><>>", fmt::format("As Table 2 of {}.", kPaper));
  for (const RunGroup& group : group_runs(input.runs)) {
    const RunNumbers& run = group.first();
    const nlohmann::ordered_json none;
    const auto& record = run.files != nullptr ? run.files->run() : none;
    table.rows.push_back(
        {group.label, or_dash(run.model),
         or_dash(run.files != nullptr ? option_of(*run.files, "input") : ""),
         shown(number_at(record, {"network", "parameters"})),
         with_prefix(number_at(record, {"network", "flops_per_sample"}), "flop"),
         std::to_string(run.training_samples), std::to_string(run.validation_samples),
         fmt::format("validation {}", title_of(run.kind)),
         run.target > 0 ? fmt::format("{}", run.target) : "-", std::to_string(group.runs.size())});
  }
  return table;
}

template <class Json>
std::vector<std::string> system_row(const std::string& name, const Json& record, double nodes,
                                    double ranks, double threads) {
  const double l3 = number_at(record, {"machine", "l3", "bytes"});
  return {name,
          or_dash(text_at(record, {"machine", "cpu"})),
          or_dash(text_at(record, {"machine", "isa"})),
          nodes > 0 ? shown(nodes) : "-",
          shown(number_at(record, {"machine", "sockets"})),
          shown(number_at(record, {"machine", "numa_nodes"})),
          shown(number_at(record, {"machine", "cores"})),
          l3 > 0 ? with_prefix(l3, "B") : "-",
          with_prefix(number_at(record, {"machine", "memory_bytes"}), "B"),
          ranks > 0 ? shown(ranks) : "-",
          threads > 0 ? shown(threads) : "-"};
}

Table systems(const ReportInput& input) {
  Table table = new_table(
      "systems", "Where it ran",
      {"run", "processor", "instructions", "nodes", "sockets per node", "NUMA nodes per node",
       "cores per node", "L3 cache", "memory per node", "ranks", "threads per rank"},
      "<<<>>>>>>>>",
      fmt::format("As Table 3 of {}; the machine is that of rank 0's node.", kPaper));
  for (const RunNumbers& run : input.runs)
    if (run.files != nullptr && run.files->run().is_object())
      table.rows.push_back(system_row(run.name, run.files->run(), static_cast<double>(run.nodes),
                                      static_cast<double>(run.ranks),
                                      static_cast<double>(run.threads)));
  for (const BenchFile& bench : input.benches)
    table.rows.push_back(system_row(bench.name, bench.record, 0,
                                    number_at(bench.record["runs"][0], {"ranks"}),
                                    number_at(bench.record, {"threads"})));
  return table;
}

template <class Json>
std::vector<std::string> version_row(const std::string& name, const Json& record) {
  const std::string job = text_at(record, {"job", "id"});
  return {name,
          or_dash(text_at(record, {"started"})),
          or_dash(text_at(record, {"version"})),
          or_dash(text_at(record, {"git_commit"})),
          or_dash(text_at(record, {"compiler"})),
          or_dash(text_at(record, {"mpi"})),
          or_dash(text_at(record, {"onednn"})),
          or_dash(text_at(record, {"reduction"})),
          job.empty() ? "-" : text_at(record, {"job", "scheduler"}) + " " + job};
}

Table versions(const ReportInput& input) {
  Table table = new_table(
      "versions", "Versions",
      {"run", "started", "halomesh", "commit", "compiler", "MPI", "oneDNN", "reduction", "job"},
      "<<<<<<<<<", "As recorded by each run.");
  for (const RunNumbers& run : input.runs)
    if (run.files != nullptr && run.files->run().is_object())
      table.rows.push_back(version_row(run.name, run.files->run()));
  for (const BenchFile& bench : input.benches)
    table.rows.push_back(version_row(bench.name, bench.record));
  return table;
}

/// Each distinct text of binding and each kernel, of the first run.
Table details(const ReportInput& input) {
  Table table = new_table("binding", "Binding and kernels", {"what", "value"}, "<<",
                          "Of the first run; equal ranks in one row.");
  for (const RunNumbers& run : input.runs) {
    if (run.files == nullptr || !run.files->run().is_object()) continue;
    for (const char* key : {"binding", "kernels"}) {
      if (!run.files->run().contains(key) || !run.files->run()[key].is_array()) continue;
      const auto& lines = run.files->run()[key];
      std::set<std::string> seen;
      for (const auto& line : lines)
        if (line.is_string() && seen.size() < 40 && seen.insert(line.get<std::string>()).second)
          table.rows.push_back({key, line.get<std::string>()});
    }
    break;
  }
  return table;
}

}  // namespace

Section machine_section(const ReportInput& input) {
  Section section{"machine", "Machine and versions", {}, {}, {}};
  for (Table table : {input.runs.empty() ? Table() : benchmark(input), systems(input),
                      versions(input), details(input)})
    if (!table.rows.empty()) section.tables.push_back(std::move(table));
  if (!input.command.empty())
    section.paragraphs.push_back("This report was made by: " + input.command);
  return section;
}

}  // namespace halomesh
