// SPDX-License-Identifier: Apache-2.0
// What a training run is, as far as its options and the number of ranks decide: what can be refused
// without data, also by those who only write a job script.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/trace/run_timeline.hpp"
#include "runtime/train/trainer_options.hpp"
#include "src/apps/options/options.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

/// The network of `train` on `ranks` ranks. Throws UsageError where it cannot be built.
PlannedNetwork planned_network(const Options& options, std::int64_t ranks, DataType precision);

/// The trainer's options as those of `train` say, except the pointers and make_loss. Throws
/// UsageError for all that can be refused without data.
TrainerOptions plan_training(const Options& options, const PlannedNetwork& network);

/// What --trace asks for; empty without it. Throws UsageError for steps or ranks that cannot be.
std::optional<TraceRequest> trace_request_of(const Options& options, std::int64_t ranks);

/// Throws UsageError where `train` with these options would refuse to start on `ranks` ranks, which
/// --instances divides. Needs neither data nor MPI, and no CPU that has instructions for bf16.
void check_training(const Options& options, std::int64_t ranks);

}  // namespace halomesh
