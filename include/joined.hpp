// SPDX-License-Identifier: Apache-2.0
// A list as text.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace halomesh {

/// The items of `range` with `separator` between them. fmt::join() would need fmt/format.h, and a
/// warning of GCC 12 to be silenced in every file that calls it.
template <class Range>
std::string joined(const Range& range, std::string_view separator) {
  std::string text;
  for (bool first = true; const auto& item : range) {
    text += fmt::format("{}{}", first ? "" : separator, item);
    first = false;
  }
  return text;
}

}  // namespace halomesh
