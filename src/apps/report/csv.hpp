// SPDX-License-Identifier: Apache-2.0
// Reads comma-separated values (RFC 4180): quoted cells may hold commas, quotes and line ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace halomesh {

/// All rows, the header included; empty lines are left out.
std::vector<std::vector<std::string>> read_csv(std::string_view text);

}  // namespace halomesh
