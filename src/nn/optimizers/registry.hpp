// SPDX-License-Identifier: Apache-2.0
// The optimizers by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/nn/optimizer.hpp"

namespace halomesh {

/// In the order in which help pages list them; the first is the default.
std::vector<std::string> optimizer_names();

/// The optimizer `options.name`. Throws UsageError for an unknown name and for settings that the
/// optimizer does not accept.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace halomesh
