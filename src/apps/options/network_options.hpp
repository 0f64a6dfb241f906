// SPDX-License-Identifier: Apache-2.0
// The names of the options that define a network: for those who only read them in records.
#pragma once

#include <string>
#include <vector>

namespace halomesh {

/// model, input, and what of all networks' options another network has other parameters by.
std::vector<std::string> network_option_names();

}  // namespace halomesh
