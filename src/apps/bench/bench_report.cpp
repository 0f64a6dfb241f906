// SPDX-License-Identifier: Apache-2.0
// The measurements as a table and as JSON: see bench_report.hpp.
#include "src/apps/bench/bench_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "counted.hpp"
#include "joined.hpp"
#include "src/apps/bench/step_bound.hpp"
#include "src/apps/train/memory_choice.hpp"
#include "src/nn/onednn/library.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

// The share of a step below which a phase has no row of its own.
constexpr double kMinorShare = 1e-3;

/// The number with `digits` after the point; "-" for 0.
std::string number(double value, int digits) {
  return value == 0 ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string percent(double part) { return number(100 * part, 1); }

/// A text such as "12.3 (11.9 .. 14.0)".
std::string text_of(const Spread& spread, double scale, int digits) {
  return fmt::format("{} ({} .. {})", number(spread.median * scale, digits),
                     number(spread.min * scale, digits), number(spread.max * scale, digits));
}

double rate(const PhaseRow& row) { return row.max_s > 0 ? row.work.flops / row.max_s : 0; }

/// The fraction of the roofline that a phase reaches: in operations, or in bytes if it has none.
double roof_fraction(const PhaseRow& row, const MachinePeak& peak, const std::string& precision) {
  if (row.max_s <= 0) return 0;
  if (row.work.flops > 0) return rate(row) / peak.roof(row.work, precision);
  return row.work.memory_bytes / row.max_s / peak.triad;
}

void print_phases(std::ostream& out, const BenchResult& result, const MachinePeak& peak) {
  TextTable table(
      {"layer", "phase", "ms", "max ms", "% step", "GF/s", "% peak", "% roof", "mem MB", "recv kB"},
      "<<>>>>>>>>");
  const std::string& precision = result.setting.precision;
  double minor_s = 0;
  for (const PhaseRow& row : result.rows) {
    const double share = row.mean_s / result.mean_step_s;
    if (share < kMinorShare && row.key.phase != Phase::kOther) {
      minor_s += row.mean_s;
      continue;
    }
    table.add({row.key.layer, name_of(row.key.phase), number(row.mean_s * 1e3, 2),
               number(row.max_s * 1e3, 2), percent(share), number(rate(row) * 1e-9, 1),
               percent(rate(row) / peak.of(precision)),
               percent(roof_fraction(row, peak, precision)),
               number(row.work.memory_bytes * 1e-6, 1), number(row.received_bytes * 1e-3, 1)});
  }
  table.add(
      {"", "all below 0.1%", number(minor_s * 1e3, 2), "", percent(minor_s / result.mean_step_s)});
  const double flops_per_s = result.flops / result.mean_step_s;
  table.add({"", "mean step", number(result.mean_step_s * 1e3, 2), "", percent(1),
             number(flops_per_s * 1e-9, 1), percent(flops_per_s / peak.of(precision))});
  out << table;
}

/// Prints one line per layer; `lines` are "conv1: forward jit:...", grouped by layer.
void print_kernels(std::ostream& out, const std::vector<std::string>& lines) {
  std::string last;
  for (const std::string& line : lines) {
    const std::size_t end = std::min(line.size(), line.find(": ") + 2);
    const std::string layer = line.substr(0, end);
    out << (layer == last  ? ", "
            : last.empty() ? "  kernels "
                           : "\n  kernels ")
        << (layer == last ? line.substr(end) : line);
    last = layer;
  }
  if (!lines.empty()) out << '\n';
}

void print_network(std::ostream& out, const NetworkSpeed& network) {
  out << "  network     barrier " << number(network.barrier_s * 1e3, 3) << " ms";
  if (network.allreduce_bytes > 0)
    out << "; all-reduce of " << number(static_cast<double>(network.allreduce_bytes) * 1e-6, 3)
        << " MB " << number(network.allreduce_s * 1e3, 3) << " ms, "
        << number(network.algorithm_bandwidth() * 1e-9, 3) << " GB/s, bus "
        << number(network.bus_bandwidth() * 1e-9, 3) << " GB/s";
  if (network.halo_bytes > 0)
    out << "; halos of " << number(static_cast<double>(network.halo_bytes) * 1e-6, 3) << " MB "
        << number(network.halo_s * 1e3, 3) << " ms, " << number(network.halo_bandwidth() * 1e-9, 3)
        << " GB/s";
  out << '\n';
  std::vector<std::string> sums;
  for (const GradientReducer::Sum& sum : network.sums)
    sums.push_back(fmt::format("{} MB {} over {}", number(static_cast<double>(sum.bytes) * 1e-6, 3),
                               sum.way, counted(sum.ranks, "rank")));
  if (!sums.empty()) out << "  sums        " << joined(sums, ", ") << '\n';
}

void print_bound(std::ostream& out, const BenchResult& result, const MachinePeak& peak) {
  const StepBound bound = bound_of(result, peak);
  std::vector<std::string> terms;
  for (const StepBound::Resource& each : bound.resources)
    if (each.seconds.value_or(0) > 0)
      terms.push_back(fmt::format("{} {}", each.name, number(*each.seconds * 1e3, 3)));
  if (terms.empty()) return;
  const StepBound::Resource& largest = bound.largest();
  out << "  bound, ms   " << joined(terms, ", ") << "; the mean step takes "
      << number(result.mean_step_s / *largest.seconds, 2) << " times the largest (" << largest.name
      << ")" << '\n';
}

Json network_json(const NetworkSpeed& network) {
  Json sums = Json::array();
  for (const GradientReducer::Sum& sum : network.sums)
    sums.push_back({{"bytes", sum.bytes}, {"ranks", sum.ranks}, {"algorithm", sum.way}});
  return {{"sums", sums},
          {"barrier_seconds", network.barrier_s},
          {"allreduce",
           {{"bytes", network.allreduce_bytes},
            {"seconds", network.allreduce_s},
            {"algorithm_bandwidth", network.algorithm_bandwidth()},
            {"bus_bandwidth", network.bus_bandwidth()}}},
          {"halo",
           {{"bytes", network.halo_bytes},
            {"seconds", network.halo_s},
            {"bandwidth", network.halo_bandwidth()}}}};
}

Json bound_json(const BenchResult& result, const MachinePeak& peak) {
  const StepBound bound = bound_of(result, peak);
  Json json;
  for (const StepBound::Resource& each : bound.resources)
    json[std::string(each.name) + "_seconds"] = each.seconds ? Json(*each.seconds) : Json();
  const StepBound::Resource& largest = bound.largest();
  const double seconds = largest.seconds.value_or(0);
  json["bound_seconds"] = seconds;
  json["limited_by"] = largest.name;
  json["step_seconds"] = result.mean_step_s;
  json["step_to_bound"] = seconds > 0 ? Json(result.mean_step_s / seconds) : Json();
  return json;
}

Json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

Json to_json(const StepShare& share) { return {{"mean", share.mean}, {"max", share.max}}; }

Json phase_json(const PhaseRow& row, const MachinePeak& peak, const std::string& precision) {
  return {{"layer", row.key.layer},
          {"phase", name_of(row.key.phase)},
          {"kind", name_of(kind_of(row.key.phase))},
          {"seconds_mean_over_ranks", row.mean_s},
          {"seconds_max_over_ranks", row.max_s},
          {"flops", row.work.flops},
          {"memory_bytes", row.work.memory_bytes},
          {"received_bytes", row.received_bytes},
          {"flops_per_second", rate(row)},
          {"peak_fraction", rate(row) / peak.of(precision)},
          {"roof_fraction", roof_fraction(row, peak, precision)}};
}

}  // namespace

void print_peak(std::ostream& out, const MachinePeak& peak) {
  out << "all ranks together: FMA peak " << number(peak.fp32 * 1e-9, 1) << " GF/s fp32";
  if (peak.bf16 > 0)
    out << ", " << number(peak.bf16 * 1e-9, 1) << " GF/s bf16 (by oneDNN, "
        << (cpu_has_matrix_unit() ? "in the matrix unit)" : "without a matrix unit)");
  if (peak.of("bf16") == peak.fp32) out << "; the reference of bf16 is the peak of fp32, too";
  out << "; triad " << number(peak.triad * 1e-9, 1) << " GB/s\n";
}

void print_result(std::ostream& out, const BenchResult& result, const MachinePeak& peak,
                  int threads) {
  const MeshShape& mesh = result.setting.mesh;
  out << "\nparts " << to_string(mesh.parts) << ", replicas " << mesh.replicas << ", "
      << mesh.ranks() << " ranks x " << threads << " threads, " << result.setting.precision
      << ", batch " << result.setting.batch << ", " << name_of(result.reduction) << " reduction"
      << (result.payload == DataType::kBfloat16 ? " of bf16, " : ", ") << result.steps
      << " steps: median (min .. max)\n"
      << "  training    " << text_of(result.step_s, 1e3, 2) << " ms per step, "
      << text_of(result.samples_per_s, 1, 3) << " samples/s\n";
  if (result.evaluated_per_s)
    out << "  evaluation  " << text_of(*result.evaluated_per_s, 1, 3) << " samples/s, "
        << number(result.evaluated_per_s->median / result.samples_per_s.median, 2)
        << " x training\n";
  const auto shares = [&](const char* name, const StepShare& share) {
    out << name << ' ' << percent(share.mean) << " (" << percent(share.max) << ")";
  };
  out << "  waiting, % of a step, mean over ranks (max): ";
  shares("halos", result.halo_wait);
  shares(", reductions", result.reduction_wait);
  shares(", both", result.exchange_wait);
  shares(", input", result.input_wait);
  shares("; packing", result.packing);
  out << "\n  memory      " << number(static_cast<double>(result.max_memory_bytes) * 1e-6, 1)
      << " MB maximum per process, "
      << number(static_cast<double>(result.sum_memory_bytes) * 1e-6, 1) << " MB in total"
      << (result.memory_of_this_run ? "" : " (since the program's start)") << '\n';
  if (result.recompute) out << "  " << to_text(*result.recompute) << '\n';
  if (result.network) print_network(out, *result.network);
  print_bound(out, result, peak);
  print_phases(out, result, peak);
  print_kernels(out, result.implementations);
}

Json to_json(const MachinePeak& peak) {
  return {{"fp32_flops_per_second", peak.fp32},
          {"bf16_flops_per_second", peak.bf16},
          {"triad_bytes_per_second", peak.triad}};
}

Json to_json(const BenchResult& result, const MachinePeak& peak) {
  const MeshShape& mesh = result.setting.mesh;
  Json json = {{"parts", to_string(mesh.parts)},
               {"replicas", mesh.replicas},
               {"ranks", mesh.ranks()},
               {"precision", result.setting.precision},
               {"reduction", name_of(result.reduction)},
               {"gradient_payload", name_of(result.payload)},
               {"batch", result.setting.batch},
               {"local_batch", result.local_batch},
               {"parameters", result.parameters},
               {"steps", result.steps},
               {"step_seconds", to_json(result.step_s)},
               {"samples_per_second", to_json(result.samples_per_s)}};
  if (result.evaluated_per_s) {
    json["evaluated_samples_per_second"] = to_json(*result.evaluated_per_s);
    json["evaluation_to_training"] = result.evaluated_per_s->median / result.samples_per_s.median;
  }
  json["mean_step_seconds"] = result.mean_step_s;
  json["flops"] = result.flops;
  json["flops_per_second"] = result.flops / result.mean_step_s;
  json["peak_fraction"] = result.flops / result.mean_step_s / peak.of(result.setting.precision);
  json["wait_fraction"] = {{"halo", to_json(result.halo_wait)},
                           {"reduction", to_json(result.reduction_wait)},
                           {"halo_and_reduction", to_json(result.exchange_wait)},
                           {"input", to_json(result.input_wait)}};
  json["packing_fraction"] = to_json(result.packing);
  json["peak_memory"] = {{"max_bytes_of_a_process", result.max_memory_bytes},
                         {"sum_bytes", result.sum_memory_bytes},
                         {"of_this_run", result.memory_of_this_run}};
  if (result.recompute) json["recompute"] = to_json(*result.recompute);
  if (result.network) json["network"] = network_json(*result.network);
  json["bound"] = bound_json(result, peak);
  json["last_loss"] = result.last_loss;
  json["kernels"] = result.implementations;
  json["phases"] = Json::array();
  for (const PhaseRow& row : result.rows)
    json["phases"].push_back(phase_json(row, peak, result.setting.precision));
  return json;
}

}  // namespace halomesh
