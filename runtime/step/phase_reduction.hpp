// SPDX-License-Identifier: Apache-2.0
// Brings together what the ranks have recorded of their steps.
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

/// Steps of a run, and how many of them this rank has timed.
struct StepNumbers {
  std::int64_t all = 0, timed = 0;
};

/// Times and counts of some steps of every rank. The rows are those of all ranks, rank 0's first
/// and in its order; a phase of a layer that is not in `layers` counts for "". The caller fills in
/// epoch, step, mesh and batch. A fixed number of all-reduces of a few kB. Collective; `layers` and
/// `steps.all` (at least 1) are the same on all ranks.
PhaseSummary summarize_phases(const Comm& comm, const std::vector<std::string>& layers,
                              const PhaseTimes& times, const StepNumbers& steps,
                              const StepCounts& counts = {});

/// The host of each of these ranks, on every rank. Collective; `ranks` are the same on all ranks.
std::vector<std::string> hosts_of(const Comm& comm, const std::vector<int>& ranks);

}  // namespace halomesh
