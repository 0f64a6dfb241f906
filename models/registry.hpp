// SPDX-License-Identifier: Apache-2.0
// The networks that can be asked for by name. Adding one is a file in this room and a line in
// registry.cpp. Knows nothing of the command line.
#pragma once

#include <string>
#include <vector>

#include "models/cosmoflow.hpp"

namespace halomesh {

/// The names that make_network() knows.
std::vector<std::string> network_names();

/// Makes the network `name`. Throws UsageError with the list of names for another one, and what the
/// network's own factory throws.
Model make_network(const std::string& name, const CosmoFlowOptions& options);

}  // namespace halomesh
