// SPDX-License-Identifier: Apache-2.0
// Creates networks by name. To add one, add a file to this room and a line to registry.cpp. Must
// not depend on the command line.
#pragma once

#include <string>
#include <vector>

#include "models/cosmoflow.hpp"

namespace halomesh {

/// The names that make_network() knows.
std::vector<std::string> network_names();

/// Creates the network `name`. Throws UsageError listing the known names if there is none of this
/// name, and whatever the network's factory throws.
Model make_network(const std::string& name, const CosmoFlowOptions& options);

}  // namespace halomesh
