// SPDX-License-Identifier: Apache-2.0
// The options of `train` for samples whose extents differ from those of the network's input.
#pragma once

#include <optional>
#include <string>

#include "models/network.hpp"
#include "runtime/load/crop_options.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// The options with --input as the network has it: without --patches that of with_padded_input().
Options padded_network_options(const Options& options);

/// How samples become inputs of the network; empty if they have its extents.
std::optional<CropOptions> crop_options(const Options& options);

/// The shape of the samples, with extents 0 if any are allowed.
Shape sample_shape(const Options& options, const std::optional<CropOptions>& crops);

/// A line for the start of a run, such as "random crops of 128x128x128x1, ...".
std::string describe(const CropOptions& crops, const Shape& input);

}  // namespace halomesh
