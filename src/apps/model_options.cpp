// The options that say which network: see model_options.hpp.
#include "src/apps/model_options.hpp"

#include <vector>

#include "models/registry.hpp"
#include "src/nn/onednn.hpp"

namespace halomesh {
namespace {

/// Says how the network is cut, not which it is: no part of a checkpoint's settings.
constexpr const char* kChannelCuts = "channel-cuts";

}  // namespace

void add_model_options(Options& options) {
  const CosmoFlowOptions d;
  options.group("Network")
      .add_choice("model", network_names(), "cosmoflow", "the network")
      .add<Shape>("input", "DxHxWxC", d.input, "voxels and channels of a sample")
      .add<std::int64_t>("kernel", "K", d.kernel,
                         "planes of a convolution along each axis; v0.7: 2, v1.0: 3")
      .at_least(1)
      .add<std::int64_t>("filters", "F", d.filters, "filters of conv1; each further layer doubles")
      .at_least(1)
      .add<std::int64_t>("conv-layers", "L", d.conv_layers, "convolution blocks")
      .at_least(1)
      .add<std::vector<std::int64_t>>("fc", "N,N", d.fc, "outputs of the hidden dense layers")
      .at_least(1)
      .add<std::int64_t>("targets", "T", d.targets, "values to be predicted")
      .at_least(1)
      .add<double>("dropout", "P", d.dropout,
                   "part of the dense layers' outputs dropped in training")
      .at_least(0)
      .below(1)
      .add<bool>(
          kChannelCuts, "on|off", d.channel_cuts,
          "cut convolutions by output channels where less moves that way; off: all in space");
}

DataType precision_named(const std::string& name) {
  if (name == "fp32") return DataType::kFloat32;
  if (name != "bf16") throw UsageError(cat("--precision ", name), "give fp32 or bf16");
  if (!cpu_computes_bf16())
    throw UsageError(cat("--precision bf16: this CPU has no instructions for bf16 (oneDNN sees ",
                         cpu_isa_name(), ")"),
                     "use --precision fp32, or nodes with AVX512-BF16 or AMX");
  return DataType::kBfloat16;
}

Model make_model(const Options& options, DataType precision) {
  CosmoFlowOptions o;
  o.precision = precision;
  o.input_type = DataType::kInt16;
  o.input = options.get<Shape>("input");
  o.kernel = options.get<std::int64_t>("kernel");
  o.filters = options.get<std::int64_t>("filters");
  o.conv_layers = options.get<std::int64_t>("conv-layers");
  o.fc = options.get<std::vector<std::int64_t>>("fc");
  o.targets = options.get<std::int64_t>("targets");
  o.dropout = options.get<double>("dropout");
  o.channel_cuts = options.get<bool>(kChannelCuts);
  return make_network(options.get<std::string>("model"), o);
}

std::map<std::string, std::string> model_settings(const Options& options) {
  Options model("", "");
  add_model_options(model);
  std::map<std::string, std::string> settings;
  for (const auto& item : model.resolved())
    if (item.first != kChannelCuts) settings[item.first] = options.get<std::string>(item.first);
  return settings;
}

Options options_of_settings(const std::map<std::string, std::string>& settings,
                            const std::string& file) {
  Options options("", "");
  add_model_options(options);
  std::vector<std::string> arguments{"model"};
  for (const auto& [name, value] : settings) arguments.push_back(cat("--", name, '=', value));
  std::vector<const char*> argv;
  argv.reserve(arguments.size());
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  try {
    options.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const UsageError& error) {
    throw Error(cat(file, " describes a network that this program does not know: ", error.what()),
                "use the version of halomesh that wrote the file");
  }
  return options;
}

}  // namespace halomesh
