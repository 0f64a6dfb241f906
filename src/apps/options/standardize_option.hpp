// SPDX-License-Identifier: Apache-2.0
// The value of --standardize: off, on, or the mean and the deviation of each channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/counts.hpp"

namespace halomesh {

/// The scales of the counts of each of `channels` channels. "off" gives none, for their logarithm;
/// "on" gives scales of the logarithm that are yet to be measured. Otherwise `text` is a list
/// MEAN:DEVIATION,... as to_text() writes it. Throws UsageError for other texts, other numbers of
/// channels, and deviations that are not positive.
std::vector<ChannelScale> parse_standardization(const std::string& text, std::int64_t channels);

/// Writes as many digits as reading the same numbers back requires.
std::string to_text(const std::vector<ChannelScale>& scales);

}  // namespace halomesh
