// SPDX-License-Identifier: Apache-2.0
// Padding of samples: see padding_option.hpp.
#include "src/apps/options/padding_option.hpp"

#include "models/registry.hpp"
#include "shape.hpp"
#include "src/apps/options/model_options.hpp"

namespace halomesh {

std::vector<std::string> networks_that_pad(bool pad) {
  std::vector<std::string> names;
  for (const Network& network : networks())
    if ((network.padded_extents != nullptr) == pad) names.push_back(network.name);
  return names;
}

void add_padding_option(Options& options) {
  options
      .add<double>("pad", "VALUE", 0,
                   "as for train: samples of --input are padded to extents that the network can "
                   "halve (the value does not matter here)")
      .zero_is_value()
      .needs("model", networks_that_pad());
}

Options with_padded_input(const Options& options) {
  Options padded = options;
  if (!options.is_given("pad")) return padded;
  const NetworkSpec spec = network_spec(options);
  const Spatial extents = spec.network->padded_extents(spec.settings);
  padded.replace(
      "input", fmt::format("{}", Shape{spec.settings.input.c, extents[0], extents[1], extents[2]}));
  return padded;
}

std::string describe_padding(const Options& options) {
  const auto samples = options.get<Shape>("input");
  const auto input = with_padded_input(options).get<Shape>("input");
  if (input == samples) return {};
  return fmt::format("samples of {} are padded to {}", samples, input);
}

}  // namespace halomesh
