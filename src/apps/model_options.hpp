// The options that say which network: shared by all commands that make one, and stored in
// checkpoints. Knows nothing of training.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/apps/options.hpp"
#include "src/nn/model.hpp"

namespace halomesh {

/// Declares --model --input --kernel --filters --conv-layers --fc --targets --dropout
/// --channel-cuts.
void add_model_options(Options& options);

/// The network that parsed options ask for, which reads samples as counts. Throws UsageError for
/// one that cannot be made.
Model make_model(const Options& options, DataType precision = DataType::kFloat32);

/// "fp32" or "bf16" as a type. Throws UsageError for others, and for bf16 where this CPU has no
/// instructions for it: it would be emulated, more slowly than fp32.
DataType precision_named(const std::string& name);

/// These options as text by name, but for --channel-cuts: what a checkpoint stores of its network.
std::map<std::string, std::string> model_settings(const Options& options);

/// The options that a checkpoint's settings ask for; settings of other programs' versions that are
/// not known are an Error naming `file`.
Options options_of_settings(const std::map<std::string, std::string>& settings,
                            const std::string& file);

}  // namespace halomesh
