// SPDX-License-Identifier: Apache-2.0
// Combines the phase times and counts of all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/model_geometry.hpp"
#include "runtime/log/phase_summary.hpp"
#include "runtime/log/step_counts.hpp"
#include "runtime/mpi/mpi.hpp"

namespace halomesh {

/// The layers and tensors that phases of a step may name, in the order of the network; the same on
/// every rank, so that ranks need not exchange names.
std::vector<std::string> phase_layers(const ModelGeometry& geometry);

/// The steps of a run, and how many of them this rank has timed.
struct StepNumbers {
  std::int64_t all = 0, timed = 0;
};

/// Summarizes times and counts of some steps over all ranks. Rank 0's rows come first, in its
/// order. A phase of a layer that is not in `layers` counts for "". The caller fills in epoch,
/// step, mesh and batch. Uses a fixed number of all-reduces of a few kB. Collective; `layers` and
/// `steps.all` (at least 1) are the same on all ranks.
PhaseSummary summarize_phases(const Comm& comm, const std::vector<std::string>& layers,
                              const PhaseTimes& times, const StepNumbers& steps,
                              const StepCounts& counts = {});

/// Gives every rank the host names of `ranks`. Collective; `ranks` are the same on all ranks.
std::vector<std::string> hosts_of(const Comm& comm, const std::vector<int>& ranks);

}  // namespace halomesh
