// SPDX-License-Identifier: Apache-2.0
// Means and deviations as text: see standardize_option.hpp.
#include "src/apps/options/standardize_option.hpp"

#include <cmath>
#include <limits>
#include <sstream>

#include "counted.hpp"
#include "error.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {

std::vector<ChannelScale> parse_scales(const std::string& option, const std::string& text,
                                       std::int64_t channels) {
  const auto refuse = [&](const std::string& what) {
    throw UsageError(
        fmt::format("--{} {}: {}", option, text, what),
        "give on or off; only checkpoints hold numbers, MEAN:DEVIATION for each channel");
  };
  if (text == "off") return {};
  if (text == "on") return std::vector<ChannelScale>(static_cast<std::size_t>(channels));
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<ChannelScale> scales;
  std::istringstream pairs(text);
  for (std::string pair; std::getline(pairs, pair, ',');) {
    const std::size_t colon = pair.find(':');
    const double mean = from_text<double>(pair.substr(0, colon)).value_or(kNone);
    const double deviation = colon == std::string::npos
                                 ? kNone
                                 : from_text<double>(pair.substr(colon + 1)).value_or(kNone);
    if (std::isnan(mean) || std::isnan(deviation))
      refuse(fmt::format("'{}' is not MEAN:DEVIATION", pair));
    if (deviation <= 0 || !fits_fp32(mean) || !fits_fp32(deviation))
      refuse(fmt::format("{} is out of range", pair));
    scales.push_back({mean, deviation});
  }
  if (std::ssize(scales) != channels)
    refuse(fmt::format("{} for {}", counted(std::ssize(scales), "pair"),
                       counted(channels, "channel")));
  return scales;
}

std::string to_text(const std::vector<ChannelScale>& scales) {
  std::string text;
  for (const ChannelScale& s : scales)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", s.mean, s.deviation);
  return text;
}

}  // namespace halomesh
