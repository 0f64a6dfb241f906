// SPDX-License-Identifier: Apache-2.0
// The names of the options that define a network, for code that only reads them in records.
#pragma once

#include <string>
#include <vector>

namespace halomesh {

/// The names: model, input, and all networks' options that change the parameters.
std::vector<std::string> network_option_names();

}  // namespace halomesh
