// The options of training: declared apart from the command so that other commands can accept a
// run's configuration file. Knows nothing of how they are used.
#pragma once

#include "src/apps/options.hpp"

namespace halomesh {

/// Declares data, run, optimizer and schedule options of `train`; the network's are declared by
/// add_model_options().
void add_training_options(Options& options);

/// Declares --reduction: how gradients are summed over ranks.
void add_reduction_option(Options& options);

/// Everything that a configuration file may hold: for Options::accept_in_config().
Options all_run_options();

}  // namespace halomesh
