// SPDX-License-Identifier: Apache-2.0
// Options and settings of networks: see network.hpp.
#include "models/network.hpp"

#include <algorithm>

namespace halomesh {

const NetworkOption* Network::option(const std::string& option_name) const {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const NetworkOption& o) { return o.name == option_name; });
  return found == options.end() ? nullptr : &*found;
}

NetworkSettings Network::defaults() const {
  NetworkSettings settings;
  settings.input = input;
  for (const NetworkOption& each : options) settings.values[each.name] = each.fallback;
  return settings;
}

void NetworkSpec::initialize(Parameters& parameters, std::uint64_t seed) const {
  parameters.initialize(seed);
  if (network->start != nullptr) network->start(settings, parameters);
}

std::vector<std::string> NetworkSpec::output_names(std::size_t outputs) const {
  if (network->output_names == nullptr) return {};
  std::vector<std::string> names = network->output_names(settings);
  if (names.size() != outputs) names.clear();
  return names;
}

}  // namespace halomesh
