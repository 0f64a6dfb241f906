// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/statistics.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace halomesh {

Statistics statistics_of(std::vector<double> values) {
  values.erase(std::remove_if(values.begin(), values.end(),
                              [](double value) { return !std::isfinite(value); }),
               values.end());
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {0, kNone, kNone, kNone, kNone, kNone};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {n,
          mean,
          (values[(n - 1) / 2] + values[n / 2]) / 2,
          values.front(),
          values.back(),
          n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0};
}

std::string shown(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return "-";
  if (size < 1e15 && std::abs(value - std::round(value)) <= 1e-9 * size)
    return fmt::format("{:.0f}", value);
  if (size >= 1e15 || size < 1e-3) return fmt::format("{:.3g}", value);
  const int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  return fmt::format("{:.{}f}", value, digits);
}

std::string with_deviation(const Statistics& values) {
  if (values.count < 2) return shown(values.mean);
  return fmt::format("{} ± {}", shown(values.mean), shown(values.deviation));
}

std::string percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.1f} %", 100 * fraction) : "-";
}

std::string with_prefix(double value, const std::string& unit) {
  if (!std::isfinite(value)) return "-";
  constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  for (; std::abs(value) >= 1000 && prefix + 1 < kPrefixes.size(); ++prefix) value /= 1000;
  return fmt::format("{:.3g} {}{}", value, kPrefixes[prefix], unit);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (std::abs(seconds) < 120) return shown(seconds) + " s";
  if (std::abs(seconds) < 7200) return shown(seconds / 60) + " min";
  return shown(seconds / 3600) + " h";
}

}  // namespace halomesh
