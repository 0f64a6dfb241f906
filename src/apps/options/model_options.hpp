// SPDX-License-Identifier: Apache-2.0
// The options that define the network: shared by all commands that build one, and stored in
// checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "runtime/train/resume_rules.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

/// Declares --model --input --cuts --channel-cuts and the options of all networks. Options of the
/// network that --model names get its defaults when they are parsed. Options of other networks are
/// refused with UsageError if given, and left out of Options::resolved().
void add_model_options(Options& options);

/// The network that parsed options define. With `reproducible` it has the kernels and cuts that
/// exact sums need, whatever the options say. Throws UsageError for malformed cuts.
NetworkSpec network_spec(const Options& options, DataType precision = DataType::kFloat32,
                         bool reproducible = false);

/// Builds the network. With --standardize on, Model::scale_counts() must then set the data set's
/// numbers. Throws UsageError if the network cannot be built.
Model make_model(const NetworkSpec& spec);
/// Its loss, with the scales of targets that the settings give.
std::unique_ptr<Loss> make_loss(const NetworkSpec& spec, const Shape& output);
inline Model make_model(const Options& options, DataType precision = DataType::kFloat32,
                        bool reproducible = false) {
  return make_model(network_spec(options, precision, reproducible));
}

/// A network with the option `name`: the first one, or else the default network.
std::string network_with(const std::string& name);

/// Parses "fp32" or "bf16". Throws UsageError for other names, and for bf16 if this CPU has no
/// instructions for it: emulated bf16 would be slower than fp32.
DataType precision_named(const std::string& name);

/// The names and texts of the network's options as stored in checkpoints, without those that affect
/// only how it is computed, and without later options at their defaults (NetworkOption).
std::map<std::string, std::string> model_settings(const Options& options);

/// The options described by a checkpoint's settings. Throws Error naming `file` for settings
/// unknown to this version.
Options options_of_settings(const std::map<std::string, std::string>& settings,
                            const std::string& file);

/// The rules for changing the options of all networks when a run resumes.
std::vector<ResumeRule> network_resume_rules();

}  // namespace halomesh
