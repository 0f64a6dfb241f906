// SPDX-License-Identifier: Apache-2.0
// The option --pad: samples of extents for which a network cannot be built.
#pragma once

#include <string>
#include <vector>

#include "src/apps/options/options.hpp"

namespace halomesh {

/// The networks that can be given samples of other extents than their input, as those that classify
/// voxels can, or the others.
std::vector<std::string> networks_that_pad(bool pad = true);

/// Declares --pad for commands that read no samples. Those that do declare it with a help text of
/// their own.
void add_padding_option(Options& options);

/// The options, parsed, with --input as the network has it: with --pad the least extents that it
/// can be built with and that have those given.
Options with_padded_input(const Options& options);

/// A text such as "samples of 18x17x21x1 are padded to 20x20x24x1"; empty if with_padded_input()
/// changes nothing.
std::string describe_padding(const Options& options);

}  // namespace halomesh
