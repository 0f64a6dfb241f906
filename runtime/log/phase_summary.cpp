// SPDX-License-Identifier: Apache-2.0
// Summaries of phases as text and as JSON: see phase_summary.hpp.
#include "runtime/log/phase_summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "counted.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

// The share of a step below which losses do not matter: computation is then the limit.
constexpr double kMinorLoss = 0.05;

/// Five digits: a measured time has no more, and a long run has many.
double rounded(double value) { return std::strtod(fmt::format("{:.5g}", value).c_str(), nullptr); }

Json spread_json(const RankSpread& s) {
  return {{"mean", rounded(s.mean)},
          {"min", rounded(s.min)},
          {"max", rounded(s.max)},
          {"max_rank", s.max_rank}};
}

Json with(Json head, const RankSpread& spread) {
  head.update(spread_json(spread));
  return head;
}

std::int64_t whole(double value) { return std::llround(value); }

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) bytes *= 1e-3;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 99.95 ? 0 : 1, kUnits[unit]);
}

std::string moved(const PhaseSummary& s) {
  const auto steps = static_cast<double>(s.steps);
  std::vector<std::string> parts;
  if (s.halo.messages > 0)
    parts.push_back(fmt::format("halos {} in {:.0f} messages",
                                bytes_text(s.halo.sent_bytes / steps), s.halo.messages / steps));
  if (s.reduction.buckets > 0)
    parts.push_back(
        fmt::format("gradients {} in {:.0f} sums of {:.2f} ms, {:.2f} ms of them waited for",
                    bytes_text(s.reduction.bytes / steps), s.reduction.buckets / steps,
                    s.reduction.bucket_seconds * 1e3, s.reduction.exposed_seconds * 1e3));
  if (s.input.calls > 0)
    parts.push_back(fmt::format("input {} in {:.1f} reads", bytes_text(s.input.bytes / steps),
                                s.input.calls / steps) +
                    (s.input.seconds > 0
                         ? fmt::format(" at {}/s{}", bytes_text(s.input.bytes / s.input.seconds),
                                       s.mesh.ranks() > 1 ? " per rank" : "")
                         : ""));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

}  // namespace

std::string PhaseSummary::limit() const {
  struct Loss {
    double share = 0;
    std::string text;
  };
  const double whole_s = std::max(step_s.mean, 1e-12);
  Loss most;
  const auto consider = [&](PhaseKind kind, const char* what) {
    const RankSpread& s = of(kind);
    if (s.mean / whole_s <= most.share) return;
    most = {s.mean / whole_s,
            fmt::format("{} takes {:.1f} % of a step", what, 100 * s.mean / whole_s)};
    if (mesh.ranks() > 1)
      most.text +=
          fmt::format(" (at most {:.1f} %, on rank {})", 100 * s.max / whole_s, s.max_rank);
  };
  consider(PhaseKind::kPacking, "packing and starting messages");
  consider(PhaseKind::kHaloWait, "waiting for halos");
  consider(PhaseKind::kReductionWait, "waiting for sums over ranks");
  consider(PhaseKind::kInputWait, "waiting for input");
  // Between phases a rank only looks for messages; MPI then yields the core if ranks share it.
  consider(PhaseKind::kOther, "waiting for a core that other ranks or programs use");
  // Ranks that compute less wait for the others: unequal work is then the cause of waits.
  const double unequal = (useful_s.max - useful_s.mean) / whole_s;
  const double waits =
      (of(PhaseKind::kHaloWait).mean + of(PhaseKind::kReductionWait).mean) / whole_s;
  if (unequal >= kMinorLoss && unequal >= waits / 2 && 2 * unequal >= most.share)
    return fmt::format(
        "unequal work: rank {} computes for {:.1f} % of a step, the mean is {:.1f} %",
        useful_s.max_rank, 100 * useful_s.max / whole_s, 100 * useful_s.mean / whole_s);
  if (most.share >= kMinorLoss) return most.text;
  return fmt::format("computation takes {:.1f} % of a step", 100 * useful_s.mean / whole_s);
}

Json to_json(const PhaseSummary& s) {
  Json json = {{"event", "phases"},
               {"epoch", s.epoch},
               {"step", s.step},
               {"steps", s.steps},
               {"ranks", s.mesh.ranks()},
               {"replicas", s.mesh.replicas},
               {"parts", to_string(s.mesh.parts)},
               {"batch", s.batch},
               {"step_seconds", spread_json(s.step_s)},
               {"kinds", Json::array()}};
  for (std::size_t k = 0; k < kPhaseKinds; ++k)
    json["kinds"].push_back(with({{"kind", name_of(static_cast<PhaseKind>(k))}}, s.kinds[k]));
  json["efficiency"] = {{"load_balance", rounded(s.load_balance())},
                        {"communication", rounded(s.communication_efficiency())},
                        {"parallel", rounded(s.parallel_efficiency())}};
  json["limit"] = s.limit();
  json["halo"] = {{"sent_bytes", whole(s.halo.sent_bytes)},
                  {"received_bytes", whole(s.halo.received_bytes)},
                  {"messages", whole(s.halo.messages)}};
  json["reduction"] = {{"bytes", whole(s.reduction.bytes)},
                       {"buckets", whole(s.reduction.buckets)},
                       {"seconds", rounded(s.reduction.bucket_seconds)},
                       {"exposed_seconds", rounded(s.reduction.exposed_seconds)}};
  json["input"] = {{"bytes", whole(s.input.bytes)},
                   {"calls", whole(s.input.calls)},
                   {"seconds", rounded(s.input.seconds)},
                   {"wait_seconds", rounded(s.input.wait_seconds)}};
  json["memory_bytes"] = {{"mean", whole(s.memory_bytes.mean)},
                          {"max", whole(s.memory_bytes.max)},
                          {"max_rank", s.memory_bytes.max_rank}};
  return json;
}

Json layers_json(const PhaseSummary& s) {
  Json json = {{"event", "layers"},
               {"epoch", s.epoch},
               {"step", s.step},
               {"steps", s.steps},
               {"rows", Json::array()}};
  for (const PhaseSummary::Row& row : s.rows) {
    json["rows"].push_back(with({{"phase", name_of(row.key.phase)},
                                 {"layer", row.key.layer},
                                 {"kind", name_of(kind_of(row.key.phase))}},
                                row.seconds));
    json["rows"].back()["received_bytes"] = whole(row.received_bytes);
  }
  return json;
}

std::string rank_name(const MeshShape& mesh, int rank, const std::string& host) {
  return fmt::format("rank {} (replica {}, part {}){}{}", rank, mesh.replica_of(rank),
                     mesh.part_of(rank), host.empty() ? "" : " ", host);
}

std::string phase_table(const PhaseSummary& s,
                        const std::array<std::string, kPhaseKinds + 1>& hosts) {
  const bool many = s.mesh.ranks() > 1;
  TextTable table(
      {counted(s.steps, "step"), "ms/step", "least", "most", "% step", many ? "most on" : ""},
      "<>>>><");
  const auto add = [&](const char* name, const RankSpread& spread, const std::string& host) {
    const auto ms = [](double seconds) { return fmt::format("{:.2f}", seconds * 1e3); };
    table.add({name, ms(spread.mean), ms(spread.min), ms(spread.max),
               fmt::format("{:.1f}", 100 * spread.mean / s.step_s.mean),
               many ? rank_name(s.mesh, spread.max_rank, host) : ""});
  };
  for (std::size_t k = 0; k < kPhaseKinds; ++k)
    if (s.kinds[k].max > 0) add(name_of(static_cast<PhaseKind>(k)), s.kinds[k], hosts[k]);
  add("step", s.step_s, hosts[kPhaseKinds]);
  std::ostringstream text;
  text << table;
  if (many)
    text << fmt::format(
        "load balance {:.3f}, communication efficiency {:.3f}, parallel efficiency {:.3f}\n",
        s.load_balance(), s.communication_efficiency(), s.parallel_efficiency());
  text << "what limits: " << s.limit() << '\n';
  if (const std::string line = moved(s); !line.empty()) text << "per step: " << line << '\n';
  text << "memory: " << bytes_text(s.memory_bytes.max) << " at most in a process";
  if (many) text << fmt::format(" (rank {})", s.memory_bytes.max_rank);
  text << '\n';
  return text.str();
}

}  // namespace halomesh
