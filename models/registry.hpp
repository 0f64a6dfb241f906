// SPDX-License-Identifier: Apache-2.0
// The networks by name. To add one, add a file to this room that has a Registered<Network>.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/network.hpp"

namespace halomesh {

/// All networks, ordered by name.
std::span<const Network> networks();
std::vector<std::string> network_names();

/// The network that commands use without --model.
const Network& default_network();

/// The network `name`. Throws UsageError listing the known names if there is none.
const Network& network_named(const std::string& name);

}  // namespace halomesh
