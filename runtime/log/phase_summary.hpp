// SPDX-License-Identifier: Apache-2.0
// Where the time of training steps went, over all ranks: for metrics.jsonl and for people.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "partition/mesh_shape.hpp"
#include "phase.hpp"
#include "rank_spread.hpp"
#include "runtime/log/phase_times.hpp"

namespace halomesh {

/// A summary of some steps over all ranks. Times are seconds per step.
struct PhaseSummary {
  struct Row {
    PhaseKey key;
    RankSpread seconds;
    double received_bytes = 0;  ///< per step, all ranks
  };
  /// Totals over all ranks and steps.
  struct Halo {
    double sent_bytes = 0, received_bytes = 0, messages = 0;
  };
  struct Reduction {
    double bytes = 0;            ///< contributed; total over ranks and steps
    double buckets = 0;          ///< on rank 0; all steps
    double bucket_seconds = 0;   ///< from start to completion, mean over ranks and buckets
    double exposed_seconds = 0;  ///< waiting of a step for the sums, mean over ranks
  };
  /// Totals over all ranks and steps.
  struct Input {
    double bytes = 0, calls = 0;
    double seconds = 0;       ///< inside read calls
    double wait_seconds = 0;  ///< waiting of steps for input
  };

  std::int64_t epoch = 0, step = 0;  ///< at the end of these steps
  std::int64_t steps = 0;            ///< the number of steps
  MeshShape mesh;
  std::int64_t batch = 0;  ///< the global batch
  RankSpread step_s;
  std::vector<Row> rows;                      ///< they add up to the step
  std::array<RankSpread, kPhaseKinds> kinds;  ///< the rows, added up by kind of time
  RankSpread useful_s;                        ///< computing and the optimizer
  Halo halo;
  Reduction reduction;
  Input input;
  RankSpread memory_bytes;  ///< peak resident memory of a process

  const RankSpread& of(PhaseKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  /// Efficiencies as the POP centre of excellence defines them (co-design.pop-coe.eu/metrics): the
  /// mean useful time over the greatest, the greatest over the step, and their product.
  double load_balance() const { return ratio(useful_s.mean, useful_s.max); }
  double communication_efficiency() const { return ratio(useful_s.max, step_s.max); }
  double parallel_efficiency() const { return load_balance() * communication_efficiency(); }
  /// The greatest cost besides useful work, e.g. "waiting for halos takes 12.3 % of a step".
  std::string limit() const;

 private:
  static double ratio(double part, double whole) { return whole > 0 ? part / whole : 1; }
};

/// The summary without its rows, as a line of metrics.jsonl without its "time". Numbers are rounded
/// to five digits.
nlohmann::ordered_json to_json(const PhaseSummary& summary);
/// The rows likewise: a line of the event "layers", which has a hundred times the bytes.
nlohmann::ordered_json layers_json(const PhaseSummary& summary);

/// A table by kind of time, the efficiencies, the limit, and the bytes moved; at most 13 lines.
/// `hosts` are those of the slowest rank of each kind, and last that of the step; "" for none.
std::string phase_table(const PhaseSummary& summary,
                        const std::array<std::string, kPhaseKinds + 1>& hosts = {});

}  // namespace halomesh
