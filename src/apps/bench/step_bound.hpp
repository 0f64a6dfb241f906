// SPDX-License-Identifier: Apache-2.0
// The least time of a step on a machine: the roofline of compute and memory, extended by the
// network and the input.
#pragma once

#include <array>
#include <optional>

#include "src/apps/bench/bench_run.hpp"
#include "src/apps/bench/machine_peak.hpp"

namespace halomesh {

/// The seconds that each resource needs for the work of a step if it does nothing else and all
/// others cost nothing: no step can be faster than the largest of them. Empty: not applicable, or
/// unknown.
struct StepBound {
  struct Resource {
    const char* name;
    std::optional<double> seconds;
  };
  std::array<Resource, 5> resources;  ///< compute, memory, halo, reduction, input

  /// The resource that takes longest.
  const Resource& largest() const;
};

/// The bound of a step: its operations at the precision's peak, its least bytes at triad speed, and
/// halos and gradients in their time alone. `input_s` is the time to read the samples of a step.
StepBound bound_of(const BenchResult& result, const MachinePeak& peak,
                   std::optional<double> input_s = {});

}  // namespace halomesh
