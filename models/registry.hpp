// SPDX-License-Identifier: Apache-2.0
// The networks by name. To add one, add a file to this room and its name to registry.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/network.hpp"

namespace halomesh {

/// All of them; the first is the default.
std::span<const Network* const> networks();

/// Their names, in that order.
std::vector<std::string> network_names();

/// The network `name`. Throws UsageError listing the known names if there is none of this name.
const Network& network_named(const std::string& name);

}  // namespace halomesh
