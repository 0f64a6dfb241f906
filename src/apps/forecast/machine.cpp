// SPDX-License-Identifier: Apache-2.0
// Machines of forecasts: see machine.hpp.
#include "src/apps/forecast/machine.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"
#include "joined.hpp"
#include "src/apps/options/nearest.hpp"

namespace halomesh {
namespace {

const NumberRule& rule_of(const std::string& name, const std::string& where) {
  const auto& rules = number_rules();
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const NumberRule& rule) { return name == rule.name; });
  if (found != rules.end()) return *found;
  std::vector<std::string> names;
  names.reserve(rules.size());
  for (const NumberRule& rule : rules) names.emplace_back(rule.name);
  throw UsageError(fmt::format("{}: unknown name {}", where, name),
                   fmt::format("did you mean {}?", nearest(name, names)));
}

}  // namespace

const char* name_of(Origin origin) {
  switch (origin) {
    case Origin::kMeasured:
      return "measured";
    case Origin::kPublished:
      return "published";
    case Origin::kDerived:
      return "derived";
    case Origin::kAssumed:
      break;
  }
  return "assumed";
}

const char* name_of(Interconnect interconnect) {
  switch (interconnect) {
    case Interconnect::kTorus:
      return "torus";
    case Interconnect::kDragonfly:
      return "dragonfly";
    case Interconnect::kFatTree:
      return "fat-tree";
    case Interconnect::kNone:
      break;
  }
  return "none";
}

const std::vector<NumberRule>& number_rules() {
  static const std::vector<NumberRule> kRules = {
      {"nodes", "nodes", 1, 1e7, true, 0},
      {"cores", "cores of a node", 1, 4096, true, 0},
      {"ranks-per-node", "ranks", 1, 4096, true, 0},
      {"memory-gib", "GiB of a node that jobs may use", 0.25, 1e6, false, 0},
      {"peak-gflops", "Gflop/s of a node, fp32", 1, 1e7, true, 0},
      {"peak-bf16-gflops", "Gflop/s of a node, bf16", 1, 1e8, false, 0},
      {"kernel-efficiency", "share of the peak", 0.001, 1, true, 0},
      {"kernel-efficiency-bf16", "share of the peak of bf16", 0.001, 1, false, 0},
      {"triad-gbs", "GB/s of a node's memory", 0.5, 1e6, true, 0},
      {"latency-us", "us of a message between nodes", 0.05, 1e4, false, 0},
      {"message-gbs", "GB/s of a message between nodes", 0.01, 1e4, false, 0},
      {"injection-gbs", "GB/s of a node into the network", 0.01, 1e5, false, 0},
      {"link-gbs", "GB/s of a link, one direction", 0.01, 1e4, false, 0},
      {"hop-us", "us of a link", 0.001, 100, false, 0.1},
      {"node-latency-us", "us of a message within a node", 0.01, 1e4, false, 1},
      {"node-message-gbs", "GB/s of a message within a node", 0.01, 1e4, false, 5},
      {"add-gbs", "GB/s of received values that a rank adds", 0.01, 1e4, false, 5},
      {"copy-gbs", "GB/s that the threads of a rank pack or unpack together", 0.01, 1e4, false, 5},
      {"core-copy-gbs", "GB/s that one thread packs or unpacks", 0.01, 1e4, false, 0},
      {"team-us", "us to start and join the threads of a rank", 0, 1e4, false, 0},
      {"poll-ms", "ms between two polls of a rank that computes", 0, 1000, false, 1},
      {"straggler-per-doubling", "share of a step per doubling of ranks", 0, 0.2, false, 0.012},
      {"kernel-time-factor", "times as long as measured or by roofline", 0.01, 100, false, 0},
      {"step-overhead-ms", "ms of a step that no layer explains", 0, 1e5, false, 0},
      {"load-gbs", "GB/s that a node loads from its stage", 0.01, 1e5, false, 2},
      {"stage-node-mbs", "MB/s that a node stages", 1, 1e6, false, 0},
      {"stage-shared-gbs", "GB/s that all nodes stage together", 0.01, 1e6, false, 0},
      {"startup-s", "s until the first step", 0, 1e5, false, 10},
  };
  return kRules;
}

double Machine::value(const std::string& number) const {
  for (const MachineNumber& known : numbers)
    if (known.name == number) return known.value;
  return rule_of(number, name).fallback;
}

void Machine::set(const MachineNumber& number) {
  const NumberRule& rule = rule_of(number.name, number.where);
  if (!(number.value >= rule.least && number.value <= rule.most))
    throw UsageError(fmt::format("{}: {} = {} is absurd", number.where, number.name, number.value),
                     fmt::format("give {} between {} and {}", rule.unit, rule.least, rule.most));
  const auto same = std::find_if(numbers.begin(), numbers.end(),
                                 [&](const auto& known) { return known.name == number.name; });
  if (same == numbers.end())
    numbers.push_back(number);
  else
    *same = number;
}

void Machine::check_whole(const std::string& file) const {
  const auto missing = [&](const std::string& number) {
    return std::none_of(numbers.begin(), numbers.end(),
                        [&](const MachineNumber& known) { return known.name == number; });
  };
  std::vector<std::string> names, lines;
  for (const NumberRule& rule : number_rules()) {
    const bool of_network =
        interconnect != Interconnect::kNone &&
        (std::string(rule.name) == "latency-us" || std::string(rule.name) == "message-gbs");
    if (!(rule.required || of_network) || !missing(rule.name)) continue;
    names.emplace_back(rule.name);
    lines.push_back(
        fmt::format("{}, {} between {} and {}", rule.name, rule.unit, rule.least, rule.most));
  }
  if (names.empty()) return;
  throw UsageError(
      fmt::format("{}: {} {} missing", file, joined(names, ", "), names.size() == 1 ? "is" : "are"),
      fmt::format("add {}; halomesh plan --machine template prints a whole file",
                  joined(lines, "; ")));
}

void Machine::derive(std::int64_t ranks_per_node) {
  const auto per_byte = [](double gbs) { return gbs > 0 ? 1 / (gbs * 1e9) : 0; };
  const double ranks = ranks_per_node > 0 ? static_cast<double>(ranks_per_node)
                                          : std::max(value("ranks-per-node"), 1.0);
  network.ranks_per_node = static_cast<int>(ranks);
  network.within_node = {value("node-latency-us") * 1e-6, per_byte(value("node-message-gbs"))};
  network.between_nodes = {value("latency-us") * 1e-6, per_byte(value("message-gbs"))};
  if (interconnect == Interconnect::kNone) network.between_nodes = network.within_node;
  network.add_s_per_byte = per_byte(value("add-gbs"));
  network.copy.s_per_byte = per_byte(value("copy-gbs"));
  const double of_core = per_byte(value("core-copy-gbs"));
  network.copy.core_s_per_byte = of_core > 0 ? of_core : network.copy.s_per_byte;
  network.copy.team_s = value("team-us") * 1e-6;
  network.poll_s = value("poll-ms") * 1e-3;
  network.injection_s_per_byte = per_byte(value("injection-gbs"));
  const double share = threads() / std::max(value("cores"), 1.0);
  kernels.rates = {peak_gflops() * 1e9 * share, value(efficiency_number()),
                   value("triad-gbs") * 1e9 * share};
}

double Machine::peak_gflops() const {
  const double fp32 = value("peak-gflops");
  return precision == DataType::kBfloat16 ? std::max(value("peak-bf16-gflops"), fp32) : fp32;
}

const char* Machine::efficiency_number() const {
  constexpr const char* kOfBf16 = "kernel-efficiency-bf16";
  const bool known = precision == DataType::kBfloat16 && value(kOfBf16) > 0;
  return known ? kOfBf16 : "kernel-efficiency";
}

void Machine::note_stand_ins() {
  struct Rule {
    const char *number, *note;
  };
  static constexpr Rule kRules[] = {
      {"kernel-efficiency-bf16", "kernel-efficiency, the share in fp32, stands in for it"},
      {"core-copy-gbs", "copy-gbs, the rate of all threads, stands in for it"},
      {"memory-gib", "no mesh is compared with the memory of a node"},
      {"stage-node-mbs", "staging is not counted"}};
  const bool bf16 = precision == DataType::kBfloat16;
  if (const double peak = value("peak-bf16-gflops"); bf16 && peak < peak_gflops())
    notes.push_back(
        fmt::format("peak-bf16-gflops is {}: peak-gflops stands in for it, as bf16 may "
                    "be computed in fp32",
                    peak > 0 ? "lower" : "not known"));
  for (const Rule& rule : kRules)
    if (value(rule.number) == 0 && (bf16 || &rule != kRules))
      notes.push_back(fmt::format("{} is not known: {}", rule.number, rule.note));
}

double Machine::kernel_time_factor() const {
  const double factor = value("kernel-time-factor");
  return factor > 0 ? factor : 1;
}

int Machine::threads() const {
  return std::max(1, static_cast<int>(value("cores")) / network.ranks_per_node);
}

Machine with_number_scaled(Machine machine, const std::string& number, double factor) {
  const NumberRule& rule = rule_of(number, machine.name);
  const double scaled = std::clamp(machine.value(number) * factor, rule.least, rule.most);
  machine.set({number, scaled, Origin::kAssumed, "varied", machine.name});
  machine.derive(machine.network.ranks_per_node);
  return machine;
}

}  // namespace halomesh
