// SPDX-License-Identifier: Apache-2.0
// Long texts in messages.
#pragma once

#include <string>

namespace halomesh {

/// The text, or its beginning where it is too long for a message, such as an embedded graph.
inline std::string elided(const std::string& text) {
  constexpr std::size_t kMost = 200, kShown = 20;
  return text.size() <= kMost ? text : text.substr(0, kShown) + "...";
}

}  // namespace halomesh
