// SPDX-License-Identifier: Apache-2.0
// The option --pad: samples of extents for which a network cannot be built.
#pragma once

#include <string>
#include <vector>

#include "src/apps/options/options.hpp"

namespace halomesh {

/// The networks that accept samples whose extents differ from their input's, such as classifiers of
/// voxels, or else all others.
std::vector<std::string> networks_that_pad(bool pad = true);

/// Declares --pad for commands that read no samples. Commands that do declare it with their own
/// help text.
void add_padding_option(Options& options);

/// Returns the parsed options with --input as the network needs it: with --pad the least extents
/// that a network can have and that contain the given ones.
Options with_padded_input(const Options& options);

/// A text such as "samples of 18x17x21x1 are padded to 20x20x24x1"; empty if with_padded_input()
/// changes nothing.
std::string describe_padding(const Options& options);

}  // namespace halomesh
