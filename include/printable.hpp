// SPDX-License-Identifier: Apache-2.0
// Texts for a terminal: names of files may hold characters that would move its cursor or worse.
#pragma once

#include <fmt/core.h>

#include <string>

namespace halomesh {

/// `text` with each control character except line breaks and tabs as "\\x1b".
inline std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool controls = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    shown += controls ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return shown;
}

}  // namespace halomesh
