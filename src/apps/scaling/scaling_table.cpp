// SPDX-License-Identifier: Apache-2.0
// A scaling study as text: see scaling_table.hpp.
#include "src/apps/scaling/scaling_table.hpp"

#include <algorithm>
#include <ostream>
#include <string>

#include "joined.hpp"
#include "text_table.hpp"

namespace halomesh {

void print_plan(std::ostream& out, const ScalingPlan& plan, std::int64_t world_ranks) {
  out << plan.cases.size() << (plan.cases.size() == 1 ? " case" : " cases") << " on "
      << joined(plan.ranks, ", ") << " of " << world_ranks
      << (world_ranks == 1 ? " rank\n" : " ranks\n");
  for (const std::string& sentence : plan.left_out) out << "  " << sentence << '\n';
  out << std::flush;
}

void print_summaries(std::ostream& out, const std::vector<ScalingRecord::Summary>& runs,
                     bool strong) {
  if (runs.empty()) return;
  const bool predicted = std::any_of(runs.begin(), runs.end(),
                                     [](const auto& run) { return run.predicted.has_value(); });
  std::vector<std::string> header{"ranks",       "parts",     "replicas", "batch",
                                  "ms per step", "samples/s", "eff. %",   "halo wait %",
                                  "reduction %", "input %"};
  std::string alignment = "><>>>>>>>>";
  if (predicted) {
    header.insert(header.end(), {"predicted ms", "pred./meas."});
    alignment += ">>";
  }
  TextTable table(header, alignment);
  for (const ScalingRecord::Summary& run : runs) {
    const Spread steps = spread_of(run.seconds);
    const MeshShape& mesh = run.setting.mesh;
    const auto percent = [](double share) { return fmt::format("{:.1f}", 100 * share); };
    std::vector<std::string> row{std::to_string(mesh.ranks()),
                                 to_string(mesh.parts),
                                 std::to_string(mesh.replicas),
                                 std::to_string(run.setting.batch),
                                 fmt::format("{:.2f} ({:.2f} .. {:.2f})", steps.median * 1e3,
                                             steps.min * 1e3, steps.max * 1e3),
                                 fmt::format("{:.3f}", run.rate()),
                                 percent(run.efficiency),
                                 percent(run.halo_wait),
                                 percent(run.reduction_wait),
                                 percent(run.input_wait)};
    if (run.predicted) {
      row.push_back(fmt::format("{:.2f}", run.predicted->step_s * 1e3));
      row.push_back(fmt::format("{:.2f}", run.predicted->step_s / steps.median));
    }
    table.add(std::move(row));
  }
  const auto rounds = std::min_element(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
                        return a.rounds < b.rounds;
                      })->rounds;
  out << '\n'
      << (strong ? "strong scaling: one global batch" : "weak scaling: one batch per replica")
      << "; median (min .. max) over the steps of " << rounds
      << (rounds == 1 ? " round" : " rounds") << '\n'
      << table;
}

}  // namespace halomesh
