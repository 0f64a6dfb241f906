// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/run_phases.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "src/apps/report/run_numbers.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::json;

double number(const Json& json, std::initializer_list<const char*> keys) {
  const double value = number_at(json, keys);
  return std::isfinite(value) ? value : 0;
}

std::int64_t rank_in(const Json& json, const char* key) {
  const double rank = number_at(json, {key});
  return rank >= 0 && rank < 1e9 ? static_cast<std::int64_t>(rank) : -1;
}

/// Adds a line's range with the weight of its share of all steps.
void add(RankRange& sum, const Json& line, double weight) {
  const double mean = number(line, {"mean"}), most = number(line, {"max"});
  if (sum.slowest_rank < 0 || weight * most > sum.most)
    sum.slowest_rank = rank_in(line, "max_rank");
  sum.mean += weight * mean;
  sum.least += weight * number(line, {"min"});
  sum.most += weight * most;
}

void add_rows(RunPhases& sum, const Json& line, double weight) {
  for (const Json& row : line.value("rows", Json::array())) {
    const std::string phase = text_at(row, {"phase"}), layer = text_at(row, {"layer"});
    auto at = std::find_if(sum.rows.begin(), sum.rows.end(), [&](const PhaseShare& share) {
      return share.phase == phase && share.layer == layer;
    });
    if (at == sum.rows.end())
      at = sum.rows.insert(sum.rows.end(), {phase, layer, text_at(row, {"kind"}), {}, 0});
    add(at->seconds, row, weight);
    at->received_bytes += weight * number(row, {"received_bytes"});
  }
  for (const Json& row : line.value("kinds", Json::array()))
    for (std::size_t kind = 0; kind < kPhaseKinds; ++kind)
      if (text_at(row, {"kind"}) == name_of(static_cast<PhaseKind>(kind)))
        add(sum.kinds[kind], row, weight);
}

void add_counters(RunPhases& sum, const Json& line) {
  sum.halo_sent += number(line, {"halo", "sent_bytes"});
  sum.halo_received += number(line, {"halo", "received_bytes"});
  sum.halo_messages += number(line, {"halo", "messages"});
  sum.reduced_bytes += number(line, {"reduction", "bytes"});
  const double buckets = number(line, {"reduction", "buckets"});
  sum.buckets += buckets;
  sum.bucket_seconds += buckets * number(line, {"reduction", "seconds"});
  sum.input_bytes += number(line, {"input", "bytes"});
  sum.input_calls += number(line, {"input", "calls"});
  sum.input_seconds += number(line, {"input", "seconds"});
  sum.input_wait_seconds += number(line, {"input", "wait_seconds"});
  sum.memory_mean = std::max(sum.memory_mean, number(line, {"memory_bytes", "mean"}));
  if (const double most = number(line, {"memory_bytes", "max"}); most > sum.memory_most) {
    sum.memory_most = most;
    sum.memory_rank =
        line.contains("memory_bytes") ? rank_in(line["memory_bytes"], "max_rank") : -1;
  }
}

}  // namespace

std::optional<RunPhases> phases_of(const RunFiles& files) {
  RunPhases sum;
  double seconds = 0;
  for (const Json& line : files.phases()) {
    const double steps = number(line, {"steps"});
    sum.steps += steps;
    seconds += steps * number(line, {"step_seconds", "mean"});
  }
  if (sum.steps <= 0 || seconds <= 0) return std::nullopt;
  for (const Json& line : files.phases()) {
    const double steps = number(line, {"steps"});
    const double weight = steps / sum.steps;
    if (weight <= 0) continue;
    sum.ranks = std::max<std::int64_t>(rank_in(line, "ranks"), 1);
    sum.replicas = std::max<std::int64_t>(rank_in(line, "replicas"), 1);
    if (line.contains("step_seconds") && line["step_seconds"].is_object())
      add(sum.step, line["step_seconds"], weight);
    add_rows(sum, line, weight);
    add_counters(sum, line);
    const double time_weight = steps * number(line, {"step_seconds", "mean"}) / seconds;
    sum.load_balance += time_weight * number(line, {"efficiency", "load_balance"});
    sum.communication += time_weight * number(line, {"efficiency", "communication"});
    sum.parallel += time_weight * number(line, {"efficiency", "parallel"});
    sum.exposed_seconds += weight * number(line, {"reduction", "exposed_seconds"});
    if (const std::string limit = text_at(line, {"limit"}); !limit.empty()) sum.limit = limit;
  }
  if (sum.buckets > 0) sum.bucket_seconds /= sum.buckets;
  return sum;
}

std::string name_of_rank(std::int64_t rank, const RunPhases& phases) {
  if (rank < 0) return "-";
  const std::int64_t parts = std::max<std::int64_t>(phases.ranks / phases.replicas, 1);
  return fmt::format("{} (replica {}, part {})", rank, rank / parts, rank % parts);
}

}  // namespace halomesh
