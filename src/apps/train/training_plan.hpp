// SPDX-License-Identifier: Apache-2.0
// The plan of a training run, from its options and the number of ranks alone: finds errors without
// data, also for commands that only write a job script.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/trace/run_timeline.hpp"
#include "runtime/train/trainer_options.hpp"
#include "src/apps/options/options.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

/// The network of `train` on `ranks` ranks. Throws UsageError if it cannot be built.
PlannedNetwork planned_network(const Options& options, std::int64_t ranks, DataType precision);

/// The trainer's options from those of `train`, without the pointers and make_loss. Throws
/// UsageError for all errors that can be found without data.
TrainerOptions plan_training(const Options& options, const PlannedNetwork& network);

/// The checkpoint that --resume names, or that --resume auto finds; empty for a new run.
std::optional<std::filesystem::path> resumed_file(const Options& options);

/// The request of --trace; empty without it. Throws UsageError for impossible steps or ranks.
std::optional<TraceRequest> trace_request_of(const Options& options, std::int64_t ranks);

/// Throws UsageError for options of `train` that cannot be used with several runs in one job, such
/// as a file that all of them would write. `why` ends the sentence, e.g. "with --instances".
void refuse_shared_files(const Options& options, const std::string& why);

/// Throws UsageError if the network of the checkpoint of --init-from scales its input or its
/// targets by numbers of its training data, as `stored` says for this option, and the run would
/// not.
void require_scales(const Options& options, const char* option, const std::string& stored);

/// Throws UsageError, or Error about the checkpoint that the run starts from, if `train` with these
/// options would refuse to start on `ranks` ranks, which
/// --instances divides. Needs neither data nor MPI, nor a CPU with instructions for bf16.
void check_training(const Options& options, std::int64_t ranks);

}  // namespace halomesh
