// SPDX-License-Identifier: Apache-2.0
// The values that stored counts stand for: their logarithms, as a table, or logarithms standardised
// by channel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace halomesh {

/// float(log(1+x)) of every count x = 0 .. 32767, rounded once from the double logarithm: the
/// transform of the CosmoFlow benchmark.
std::span<const float, 32768> log_table();

/// The scale of the values of one channel: counts x stand for (log(1+x) - mean) / deviation.
struct ChannelScale {
  double mean = 0, deviation = 1;
  friend bool operator==(const ChannelScale&, const ChannelScale&) = default;
};

/// The scaled values of every count, 32768 per channel, one channel after the other, rounded once
/// from double.
std::vector<float> scaled_logarithms(std::span<const ChannelScale> scales);

}  // namespace halomesh
