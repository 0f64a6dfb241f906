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

std::vector<float> scaled_logarithms(std::span<const ChannelScale> scales) {
  std::vector<float> tables;
  tables.reserve(scales.size() * log_table().size());
  for (const auto& [mean, deviation] : scales)
    for (std::size_t x = 0; x < log_table().size(); ++x)
      tables.push_back(static_cast<float>((std::log1p(static_cast<double>(x)) - mean) / deviation));
  return tables;
}

}  // namespace halomesh
