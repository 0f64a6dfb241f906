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
/// --standardize --cuts --channel-cuts --kernels.
void add_model_options(Options& options);

/// The network that parsed options define; it reads samples as counts. With --standardize on it is
/// to be given the data set's numbers, Model::scale_counts(). With `reproducible`, its layers have
/// GradientKernels::kReproducible, whatever --kernels and --cuts say. Throws UsageError if it
/// cannot be built.
Model make_model(const Options& options, DataType precision = DataType::kFloat32,
                 bool reproducible = false);

/// "fp32" or "bf16" as a type. Throws UsageError for other names, and for bf16 if this CPU has no
/// instructions for it: emulated bf16 would be slower than fp32.
DataType precision_named(const std::string& name);

/// The names and texts of these options, except --cuts, --channel-cuts and --kernels, as stored in
/// checkpoints; without --standardize if that is off.
std::map<std::string, std::string> model_settings(const Options& options);

/// The options described by a checkpoint's settings. Throws Error naming `file` for settings
/// unknown to this version.
Options options_of_settings(const std::map<std::string, std::string>& settings,
                            const std::string& file);

}  // namespace halomesh
