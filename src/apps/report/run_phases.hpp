// SPDX-License-Identifier: Apache-2.0
// Where the time of a run's steps went: its lines of the event "phases" put together.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phase.hpp"
#include "src/apps/records/run_files.hpp"

namespace halomesh {

/// Seconds per step over ranks: means over the steps of all lines.
struct RankRange {
  double mean = 0, least = 0, most = 0;
  std::int64_t slowest_rank = -1;  ///< -1: not known
};

struct PhaseShare {
  std::string phase, layer, kind;
  RankRange seconds;
  double received_bytes = 0;  ///< per step, sum over ranks
};

/// Sums over steps and ranks unless named otherwise.
struct RunPhases {
  double steps = 0;
  std::int64_t ranks = 1, replicas = 1;
  RankRange step;
  std::vector<PhaseShare> rows;
  std::array<RankRange, kPhaseKinds> kinds;
  double load_balance = 0, communication = 0, parallel = 0;  ///< weighted by time
  std::string limit;
  double halo_sent = 0, halo_received = 0, halo_messages = 0;
  double reduced_bytes = 0;
  double buckets = 0;          ///< of one rank
  double bucket_seconds = 0;   ///< of a bucket from start to completion, mean
  double exposed_seconds = 0;  ///< wait per step
  double input_bytes = 0, input_calls = 0, input_seconds = 0, input_wait_seconds = 0;
  double memory_mean = 0, memory_most = 0;  ///< bytes
  std::int64_t memory_rank = -1;

  const RankRange& of(PhaseKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  /// Seconds per step of useful work: compute and optimizer, mean over ranks.
  double useful() const { return of(PhaseKind::kCompute).mean + of(PhaseKind::kOptimizer).mean; }
};

/// Empty when no line has a number of steps.
std::optional<RunPhases> phases_of(const RunFiles& files);

/// "5 (replica 1, part 1)": the rank with its place in the mesh.
std::string name_of_rank(std::int64_t rank, const RunPhases& phases);

}  // namespace halomesh
