// SPDX-License-Identifier: Apache-2.0
// The least time of a step: see step_bound.hpp.
#include "src/apps/bench/step_bound.hpp"

#include <algorithm>

namespace halomesh {

const StepBound::Resource& StepBound::largest() const {
  return *std::max_element(resources.begin(), resources.end(),
                           [](const Resource& a, const Resource& b) {
                             return a.seconds.value_or(0) < b.seconds.value_or(0);
                           });
}

StepBound bound_of(const BenchResult& result, const MachinePeak& peak,
                   std::optional<double> input_s) {
  const auto time = [](double amount, double rate) {
    return rate > 0 ? std::optional(amount / rate) : std::nullopt;
  };
  double bytes = 0;
  for (const PhaseRow& row : result.rows) bytes += row.work.memory_bytes;
  std::optional<double> halo_s, reduction_s;
  if (result.network) {
    halo_s = result.network->halo_s;
    reduction_s = result.network->allreduce_s;
  }
  return {{{{"compute", time(result.flops, peak.of(result.setting.precision))},
            {"memory", time(bytes, peak.triad)},
            {"halo", halo_s},
            {"reduction", reduction_s},
            {"input", input_s}}}};
}

}  // namespace halomesh
