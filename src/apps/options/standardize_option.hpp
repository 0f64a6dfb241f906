// SPDX-License-Identifier: Apache-2.0
// The value of --standardize: off, on, or the mean and the deviation of each channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/counts.hpp"

namespace halomesh {

/// What the counts of each of `channels` channels stand for. "off": none, for their logarithm.
/// "on": those of the logarithm, until they are known. Otherwise a list MEAN:DEVIATION,... as
/// to_text() writes it. Throws UsageError for other texts, other numbers of channels, and
/// deviations that are not positive.
std::vector<ChannelScale> parse_standardization(const std::string& text, std::int64_t channels);

/// With as many digits as bring the same numbers back.
std::string to_text(const std::vector<ChannelScale>& scales);

}  // namespace halomesh
