// SPDX-License-Identifier: Apache-2.0
// Finds the known word nearest to a mistyped one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace halomesh {

/// The least number of insertions, deletions and substitutions that change `a` into `b`
/// (Levenshtein 1966).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

/// The first word in `known` with the least edit distance to `word`; "" if `known` is empty.
inline std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (known.empty()) return {};
  return *std::min_element(known.begin(), known.end(),
                           [&](const std::string& a, const std::string& b) {
                             return edit_distance(word, a) < edit_distance(word, b);
                           });
}

}  // namespace halomesh
