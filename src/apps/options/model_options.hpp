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

/// Declares --model --input --cuts --channel-cuts and the options of all networks. Those of the
/// network that --model names get its defaults when they are parsed; others are then refused with
/// UsageError where they are given, and left out of Options::resolved().
void add_model_options(Options& options);

/// The network that parsed options define. With `reproducible` it has the kernels and cuts that
/// this needs, whatever the options say. Throws UsageError for cuts that cannot be read.
NetworkSpec network_spec(const Options& options, DataType precision = DataType::kFloat32,
                         bool reproducible = false);

/// That network, built. With --standardize on it is to be given the data set's numbers,
/// Model::scale_counts(). Throws UsageError if it cannot be built.
Model make_model(const NetworkSpec& spec);
inline Model make_model(const Options& options, DataType precision = DataType::kFloat32,
                        bool reproducible = false) {
  return make_model(network_spec(options, precision, reproducible));
}

/// A network that has the option `name`: the first of them, or the default network.
std::string network_with(const std::string& name);

/// "fp32" or "bf16" as a type. Throws UsageError for other names, and for bf16 if this CPU has no
/// instructions for it: emulated bf16 would be slower than fp32.
DataType precision_named(const std::string& name);

/// The names and texts of the network's options as stored in checkpoints: without those that say
/// how it is computed, and without later ones at their defaults (NetworkOption).
std::map<std::string, std::string> model_settings(const Options& options);

/// The options described by a checkpoint's settings. Throws Error naming `file` for settings
/// unknown to this version.
Options options_of_settings(const std::map<std::string, std::string>& settings,
                            const std::string& file);

/// What may change of the network's options when a run resumes, all networks together.
std::vector<ResumeRule> network_resume_rules();

}  // namespace halomesh
