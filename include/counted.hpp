// SPDX-License-Identifier: Apache-2.0
// Counted things in messages.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace halomesh {

/// For example "1 rank" or "4 ranks".
inline std::string counted(std::int64_t number, const std::string& noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace halomesh
