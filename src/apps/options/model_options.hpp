// SPDX-License-Identifier: Apache-2.0
// The options that define the network: shared by all commands that build one, and stored in
// checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/apps/options/options.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// Declares --model --input --kernel --filters --conv-layers --fc --targets --dropout
/// --channel-cuts.
void add_model_options(Options& options);

/// The network that parsed options define, which reads samples as counts. Throws UsageError for one
/// that cannot be built.
Model make_model(const Options& options, DataType precision = DataType::kFloat32);

/// "fp32" or "bf16" as a type. Throws UsageError for others, and for bf16 where this CPU has no
/// instructions for it: it would be emulated, more slowly than fp32.
DataType precision_named(const std::string& name);

/// These options as text by name, except --channel-cuts: what a checkpoint stores of its network.
std::map<std::string, std::string> model_settings(const Options& options);

/// The options that a checkpoint's settings stand for. Throws an Error naming `file` for settings
/// that this version does not know.
Options options_of_settings(const std::map<std::string, std::string>& settings,
                            const std::string& file);

}  // namespace halomesh
