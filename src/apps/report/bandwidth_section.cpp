// SPDX-License-Identifier: Apache-2.0
// Bandwidth of memory, of the sums of gradients and of input, as runs have measured it.
#include <algorithm>
#include <cmath>

#include "src/apps/report/figure_parts.hpp"
#include "src/apps/report/run_phases.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

constexpr const char* kLeast = "least (model)";

std::string gigabytes(double bytes_per_second) {
  return std::isfinite(bytes_per_second) ? fmt::format("{:.3g}", bytes_per_second * 1e-9) : "-";
}

std::string system_of(const RunNumbers& run) { return run.cpu.empty() ? "-" : run.cpu; }

double sum_of(const nlohmann::json& rows, const char* key) {
  double sum = 0;
  for (const auto& row : rows)
    if (const double value = number_at(row, {key}); std::isfinite(value)) sum += value;
  return sum;
}

/// Table 7: the bytes that a step must move at least, over its mean time.
Table memory(const ReportInput& input) {
  Table table = new_table(
      "memory-bandwidth", "Memory bandwidth",
      {"run", "system", "tool", "GB/s per rank", "GB/s per node", "GB/s in total", "of triad"},
      "<<<>>>>",
      fmt::format(
          "As Table 7 of {}. Least (model): each tensor read and written once a phase, over "
          "the mean time of a step; caches that are too small move more.",
          kPaper));
  const auto add = [&](const std::string& name, const std::string& system, double rate,
                       double ranks, double nodes, double triad) {
    table.rows.push_back({name, system, kLeast, gigabytes(rate / ranks),
                          nodes > 0 ? gigabytes(rate / nodes) : "-", gigabytes(rate),
                          percent(rate / triad)});
  };
  for (const RunNumbers& run : input.runs) {
    if (run.files == nullptr || !run.files->run().contains("work")) continue;
    const auto phases = phases_of(*run.files);
    const double bytes = sum_of(nlohmann::json(run.files->run()["work"]), "memory_bytes");
    if (phases && bytes > 0)
      add(run.name, system_of(run), bytes / phases->step.mean, static_cast<double>(phases->ranks),
          static_cast<double>(run.nodes), std::nan(""));
  }
  for (const BenchFile& bench : input.benches)
    for (const auto& run : bench.record["runs"]) {
      const double bytes = sum_of(run.value("phases", nlohmann::json::array()), "memory_bytes");
      const double ranks = number_at(run, {"ranks"});
      if (bytes > 0 && ranks > 0)
        add(fmt::format("{}: {} x {}", bench.name, number_at(run, {"replicas"}),
                        text_at(run, {"parts"})),
            text_at(bench.record, {"machine", "cpu"}),
            bytes / number_at(run, {"mean_step_seconds"}), ranks, 0,
            number_at(bench.record, {"peak", "triad_bytes_per_second"}));
    }
  return table;
}

/// Table 8. Algorithm and bus bandwidth as in nccl-tests, doc/PERFORMANCE.md.
Table reduction(const ReportInput& input) {
  Table table = new_table(
      "reduction-bandwidth", "Bandwidth of the sums of gradients",
      {"run", "ranks", "system", "tool", "size in MB", "algorithm GB/s", "bus GB/s",
       "sums per step", "a sum in ms", "waited per step in ms"},
      "<><<>>>>>>",
      fmt::format(
          "As Table 8 of {}: S / t of the mean sum, of size S and with time t from start to "
          "completion; bus bandwidth is 2(n-1)/n times that for n ranks. The completion is "
          "seen when the program polls, so t is an upper bound.",
          kPaper));
  for (const RunNumbers& run : input.runs) {
    if (run.files == nullptr) continue;
    const auto phases = phases_of(*run.files);
    if (!phases || phases->buckets <= 0 || phases->reduced_bytes <= 0) continue;
    const auto n = static_cast<double>(phases->ranks);
    const double size = phases->reduced_bytes / n / phases->buckets;
    const double rate = size / phases->bucket_seconds;
    table.rows.push_back({run.name, std::to_string(phases->ranks), system_of(run), "halomesh",
                          shown(size * 1e-6), gigabytes(rate), gigabytes(rate * 2 * (n - 1) / n),
                          shown(phases->buckets / phases->steps),
                          fmt::format("{:.3f}", 1e3 * phases->bucket_seconds),
                          fmt::format("{:.3f}", 1e3 * phases->exposed_seconds)});
  }
  return table;
}

/// Table 9.
Table reading(const ReportInput& input) {
  Table table = new_table(
      "input-bandwidth", "Bandwidth of input",
      {"run", "system", "tool", "GB/s per rank", "read per step", "in calls per step in ms",
       "waited per step in ms"},
      "<<<>>>>",
      fmt::format(
          "As Table 9 of {}: bytes over the time inside read calls. Times: mean over ranks. "
          "What is not waited for is hidden behind computation.",
          kPaper));
  for (const RunNumbers& run : input.runs) {
    if (run.files == nullptr) continue;
    const auto phases = phases_of(*run.files);
    if (!phases || phases->input_bytes <= 0) continue;
    const double per_rank_step = static_cast<double>(phases->ranks) * phases->steps;
    table.rows.push_back({run.name, system_of(run), "halomesh",
                          gigabytes(phases->input_bytes / phases->input_seconds),
                          with_prefix(phases->input_bytes / phases->steps, "B"),
                          fmt::format("{:.3f}", 1e3 * phases->input_seconds / per_rank_step),
                          fmt::format("{:.3f}", 1e3 * phases->input_wait_seconds / per_rank_step)});
  }
  return table;
}

Table traffic(const ReportInput& input) {
  Table table = new_table(
      "traffic", "Messages and memory",
      {"run", "halos sent per step", "halo messages per step", "contributed to sums per step",
       "peak memory of a rank: mean", "most", "rank with most"},
      "<>>>>>>", "Sums over ranks; memory: resident set of a process.");
  for (const RunNumbers& run : input.runs) {
    if (run.files == nullptr) continue;
    const auto phases = phases_of(*run.files);
    if (!phases) continue;
    table.rows.push_back({run.name, with_prefix(phases->halo_sent / phases->steps, "B"),
                          shown(phases->halo_messages / phases->steps),
                          with_prefix(phases->reduced_bytes / phases->steps, "B"),
                          with_prefix(phases->memory_mean, "B"),
                          with_prefix(phases->memory_most, "B"),
                          name_of_rank(phases->memory_rank, *phases)});
  }
  return table;
}

}  // namespace

Section bandwidth_section(const ReportInput& input) {
  Section section{"bandwidth", "Memory, network and input", {}, {}, {}};
  for (Table table : {memory(input), reduction(input), reading(input), traffic(input)})
    if (!table.rows.empty()) section.tables.push_back(std::move(table));
  return section;
}

}  // namespace halomesh
