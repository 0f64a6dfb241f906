// SPDX-License-Identifier: Apache-2.0
// Statistics of a few values, and numbers as the text of a report.
#pragma once

#include <string>
#include <vector>

namespace halomesh {

/// NaN where there is no value.
struct Statistics {
  std::size_t count = 0;
  double mean = 0, median = 0, least = 0, most = 0;
  double deviation =
      0;  ///< standard deviation of a sample, n-1 in the denominator; 0 for one value
};

/// Of the finite values among `values`. The median of an even number is the mean of the middle two.
Statistics statistics_of(std::vector<double> values);

/// Whole numbers as such, others with about four significant digits; no exponent between 1e-3 and
/// 1e15; "-" unless finite.
std::string shown(double value);
/// "12.30 ± 0.41"; the mean alone for one value.
std::string with_deviation(const Statistics& values);
/// "12.3 %".
std::string percent(double fraction);
/// "1.85 GB/s" or the like: `value` in `unit` with a decimal prefix.
std::string with_prefix(double value, const std::string& unit);
/// "96.4 s", "12.5 min" or "3.21 h".
std::string duration(double seconds);

}  // namespace halomesh
