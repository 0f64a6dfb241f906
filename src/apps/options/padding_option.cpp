// SPDX-License-Identifier: Apache-2.0
// See padding_option.hpp.
#include "src/apps/options/padding_option.hpp"

#include "shape.hpp"
#include "src/apps/options/model_options.hpp"

namespace halomesh {

void add_padding_option(Options& options) {
  options.add<double>("pad", "VALUE", 0,
                      "as for train: samples of --input are padded to extents that the network can "
                      "halve (the value does not matter here)");
}

Options with_padded_input(const Options& options) {
  Options padded = options;
  if (!options.is_given("pad")) return padded;
  const NetworkSpec spec = network_spec(options);
  if (spec.network->padded_extents == nullptr)
    throw UsageError(
        fmt::format("--pad: the network {} reads samples as they are", spec.network->name),
        "leave it out");
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
