// SPDX-License-Identifier: Apache-2.0
// The options of training, declared separately from the command so that other commands accept a
// run's configuration file.
#pragma once

#include <cstdint>
#include <string>

#include "src/apps/options/options.hpp"

namespace halomesh {

/// Declares data, run, optimizer and schedule options of `train`; the network's are declared by
/// add_model_options(). --out is required unless a default is given here.
void add_training_options(Options& options, const std::string& default_out = {});

/// Declares --reduction: how gradients are summed over ranks.
void add_reduction_option(Options& options);

/// Declares --optimizer.
void add_optimizer_choice(Options& options);
/// Arrays of the size of the parameters that the chosen optimizer keeps.
std::int64_t optimizer_states(const Options& options);

/// Everything that a configuration file may hold: for Options::accept_in_config().
Options all_run_options();

}  // namespace halomesh
