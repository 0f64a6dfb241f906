// SPDX-License-Identifier: Apache-2.0
// The values of --standardize and --scale-targets: off, on, or a mean and a deviation for each
// channel or target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/counts.hpp"

namespace halomesh {

/// The scales of each of `channels` channels, as the option of this name gives them. "off" gives
/// none; "on" gives scales that are yet to be measured. Otherwise `text` is a list
/// MEAN:DEVIATION,... as to_text() writes it. Throws UsageError for other texts, other numbers of
/// channels, and deviations that are not positive.
std::vector<ChannelScale> parse_scales(const std::string& option, const std::string& text,
                                       std::int64_t channels);

/// Writes as many digits as reading the same numbers back requires.
std::string to_text(const std::vector<ChannelScale>& scales);

}  // namespace halomesh
