// SPDX-License-Identifier: Apache-2.0
// Writes the files of a data set in the format of the DeepCAM benchmark. hdf5_dataset.hpp reads
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "shape.hpp"

namespace halomesh {

/// Writes one sample of shape {channels, rows, 1, columns}: climate/data (rows, columns, channels)
/// float32 and climate/labels_0 (rows, columns) int32. The file gets its name when it is complete.
/// Throws Error naming the file.
void write_climate_file(const std::filesystem::path& path, const Shape& shape,
                        std::span<const float> values, std::span<const std::uint8_t> labels);

/// Sums over the pixels of one channel.
struct ChannelSums {
  double pixels = 0, sum = 0, squares = 0;
  float least = 0, most = 0;
  friend bool operator==(const ChannelSums&, const ChannelSums&) = default;
};

/// The sums of each channel of a sample, whose last axis is the channels.
std::vector<ChannelSums> channel_sums(std::span<const float> values, std::int64_t channels);
/// Adds the sums of another sample.
void add(const std::vector<ChannelSums>& more, std::vector<ChannelSums>& sums);

/// Writes stats.h5 with climate/{count,mean,sqmean,minval,maxval}, one float32 per channel.
void write_climate_stats(const std::filesystem::path& path, const std::vector<ChannelSums>& sums);

}  // namespace halomesh
