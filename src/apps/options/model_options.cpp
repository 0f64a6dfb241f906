// SPDX-License-Identifier: Apache-2.0
// The options that define the network: see model_options.hpp.
#include "src/apps/options/model_options.hpp"

#include <algorithm>
#include <vector>

#include "models/registry.hpp"
#include "src/apps/options/standardize_option.hpp"
#include "src/nn/onednn_library.hpp"

namespace halomesh {
namespace {

/// Define how the network is computed, not what: not stored in checkpoints.
constexpr const char* kCuts = "cuts";
constexpr const char* kChannelCuts = "channel-cuts";
constexpr const char* kKernels = "kernels";
constexpr const char* kStandardize = "standardize";
constexpr const char* kAverage = "average";
constexpr const char* kBatchNorm = "batch-norm";
constexpr const char* kUseVersionOfFile = "use the version of halomesh that wrote the file";

GradientKernels kernels_named(const std::string& name) {
  if (name == "sparse") return GradientKernels::kSparse;
  if (name == "winograd") return GradientKernels::kWinograd;
  return name == "dense" ? GradientKernels::kDense : GradientKernels::kAuto;
}

}  // namespace

void add_model_options(Options& options) {
  const CosmoFlowOptions d;
  options.group("Network")
      .add_choice("model", network_names(), "cosmoflow", "network architecture")
      .add<Shape>("input", "DxHxWxC", d.input, "extents and channels of a sample")
      .at_most(65536)
      .add<std::int64_t>("kernel", "K", d.kernel,
                         "kernel size along each axis; MLPerf HPC v0.7: 2, v1.0: 3")
      .at_least(1)
      .at_most(1024)
      .add<std::int64_t>("filters", "F", d.filters,
                         "filters of conv1; each further convolution doubles them")
      .at_least(1)
      .add<std::int64_t>("conv-layers", "L", d.conv_layers, "number of convolution blocks")
      .at_least(1)
      .add<bool>(kAverage, "on|off", d.average,
                 "average the features of the last convolution over space, so that the dense "
                 "layers do not know places; not in the published network")
      .add<std::int64_t>(kBatchNorm, "N", d.batch_norm,
                         "normalize each feature after each convolution over N consecutive samples "
                         "of the global batch; 0: off, as published")
      .at_least(0)
      .add<std::vector<std::int64_t>>("fc", "N,N", d.fc, "sizes of the hidden dense layers")
      .at_least(1)
      .add<std::int64_t>("targets", "T", d.targets, "number of values to predict")
      .at_least(1)
      .add<double>("dropout", "P", d.dropout, "dropout probability after each hidden dense layer")
      .at_least(0)
      .below(1)
      .add<std::string>(kStandardize, "on|off", "off",
                        "subtract from log(1+x) the mean of its channel over training samples, and "
                        "divide by the standard deviation; a checkpoint keeps the numbers")
      .implicit("on")
      .add<std::string>(kCuts, "CUTS", "auto",
                        "how convolutions are cut over the parts of a sample: auto: in space, by "
                        "output channels or both, as costs least; space; channels: all of one "
                        "kind; or a list of blocks of space x groups of channels, e.g. "
                        "conv4:4x2,conv5:1x8, with all others in space")
      .add<bool>(kChannelCuts, "on|off", true,
                 "older form of --cuts, which overrides it: on: auto, off: space")
      .add_choice(
          kKernels, {"auto", "sparse", "winograd", "dense"}, "auto",
          "convolutions: sparse: gradients from the maxima of the pooling windows alone; "
          "winograd: forward by Winograd's minimal filtering (fp32); dense: oneDNN's kernels; "
          "auto: whichever of these cost less");
}

DataType precision_named(const std::string& name) {
  if (name == "fp32") return DataType::kFloat32;
  if (name != "bf16") throw UsageError(fmt::format("--precision {}", name), "give fp32 or bf16");
  if (!cpu_computes_bf16())
    throw UsageError(
        fmt::format("--precision bf16: this CPU has no instructions for bf16 (oneDNN sees {})",
                    cpu_isa_name()),
        "use --precision fp32, or nodes with AVX512-BF16 or AMX");
  return DataType::kBfloat16;
}

Model make_model(const Options& options, DataType precision, bool reproducible) {
  CosmoFlowOptions o;
  o.precision = precision;
  o.input_type = DataType::kInt16;
  o.input = options.get<Shape>("input");
  o.kernel = options.get<std::int64_t>("kernel");
  o.filters = options.get<std::int64_t>("filters");
  o.conv_layers = options.get<std::int64_t>("conv-layers");
  o.average = options.get<bool>(kAverage);
  o.batch_norm = options.get<std::int64_t>(kBatchNorm);
  o.fc = options.get<std::vector<std::int64_t>>("fc");
  o.targets = options.get<std::int64_t>("targets");
  o.dropout = options.get<double>("dropout");
  o.cuts = parse_cuts(options.get<std::string>(kCuts));
  if (!options.is_given(kCuts) && !options.get<bool>(kChannelCuts))
    o.cuts.kind = CutSetting::Kind::kSpace;
  o.kernels = reproducible ? GradientKernels::kReproducible
                           : kernels_named(options.get<std::string>(kKernels));
  Model model = make_network(options.get<std::string>("model"), o);
  model.scale_counts(parse_standardization(options.get<std::string>(kStandardize), o.input.c));
  return model;
}

std::map<std::string, std::string> model_settings(const Options& options) {
  Options model("", "");
  add_model_options(model);
  std::map<std::string, std::string> settings;
  for (const std::string& name : model.names())
    if (name != kCuts && name != kChannelCuts && name != kKernels)
      settings[name] = options.get<std::string>(name);
  // Checkpoints without them can be read by versions that do not know them.
  for (const char* const name : {kStandardize, kAverage})
    if (settings[name] == "off") settings.erase(name);
  if (settings[kBatchNorm] == "0") settings.erase(kBatchNorm);
  return settings;
}

Options options_of_settings(const std::map<std::string, std::string>& settings,
                            const std::string& file) {
  Options options("", "");
  add_model_options(options);
  const std::vector<std::string> known = options.names();
  std::vector<std::string> arguments;
  arguments.reserve(settings.size());
  for (const auto& [name, value] : settings) {
    // Not every option is one of the network: --config would have another file read.
    require(std::find(known.begin(), known.end(), name) != known.end(),
            text("{} describes a network that this version does not support: unknown setting {}",
                 file, name),
            kUseVersionOfFile);
    arguments.push_back(fmt::format("--{}={}", name, value));
  }
  try {
    options.parse(arguments);
  } catch (const UsageError& error) {
    throw Error(fmt::format("{} describes a network that this version does not support: {}", file,
                            error.what()),
                kUseVersionOfFile);
  }
  return options;
}

}  // namespace halomesh
