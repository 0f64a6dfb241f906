// SPDX-License-Identifier: Apache-2.0
// The transform of counts: see counts.hpp.
#include "src/nn/counts.hpp"

#include <array>
#include <cmath>
#include <cstddef>

namespace halomesh {

std::span<const float, 32768> log_table() {
  static const std::array<float, 32768> kTable = [] {
    std::array<float, 32768> t{};
    for (std::size_t x = 0; x < t.size(); ++x)
      t[x] = static_cast<float>(std::log1p(static_cast<double>(x)));
    return t;
  }();
  return kTable;
}

}  // namespace halomesh
