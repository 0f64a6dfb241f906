// SPDX-License-Identifier: Apache-2.0
// The options of training, declared separately from the command so that other commands accept a
// run's configuration file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/step_memory.hpp"
#include "runtime/train/resume_rules.hpp"
#include "score.hpp"
#include "src/apps/options/options.hpp"
#include "src/nn/optimizer.hpp"

namespace halomesh {

/// Declares data, run, optimizer and schedule options of `train`; add_model_options() declares the
/// network's. --out is required unless a default is given here.
void add_training_options(Options& options, const std::string& default_out = {});

/// The rule for each setting when a run with these options resumes; the network's come first.
std::vector<ResumeRule> resume_rules(const Options& options);
/// These rules as the paragraphs of a help page.
std::string describe_resume_rules(const Options& options);

/// The score at which training ends, 0 for none, of a network that is judged by `score`. Throws
/// UsageError if --target-score does not fit it.
double target_score(const Options& options, Score score);

/// Declares --reduction: how gradients are summed over ranks.
void add_reduction_option(Options& options);

/// Declares --gradient-payload.
void add_payload_option(Options& options);
/// The type named by --gradient-payload. Any CPU can round to bf16, so none is refused.
DataType payload_type(const Options& options);

/// Declares --reproducible, which is refused beside options that it excludes.
void add_reproducible_option(Options& options);

/// Declares --recompute.
void add_recompute_option(Options& options);
/// The memory use named by --recompute; empty: auto.
std::optional<MemoryUse> memory_use(const Options& options);

/// Declares --optimizer.
void add_optimizer_choice(Options& options);
/// The optimizer named by --optimizer, to ask for its needs; its other settings where they are
/// declared.
std::unique_ptr<Optimizer> chosen_optimizer(const Options& options);
/// The number of arrays of the size of the parameters that it and --gradient-payload need.
std::int64_t state_arrays(const Options& options);

/// All options that a configuration file may have: for Options::accept_in_config().
Options all_run_options();

}  // namespace halomesh
