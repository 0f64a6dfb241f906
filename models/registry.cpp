// SPDX-License-Identifier: Apache-2.0
// The networks by name: see registry.hpp.
#include "models/registry.hpp"

#include <array>

#include "error.hpp"
#include "joined.hpp"

namespace halomesh {

// Each in the file of its name.
const Network& cosmoflow_network();
const Network& unet3d_network();

std::span<const Network* const> networks() {
  static const std::array kAll{&cosmoflow_network(), &unet3d_network()};
  return kAll;
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Network* network : networks()) names.push_back(network->name);
  return names;
}

const Network& network_named(const std::string& name) {
  for (const Network* network : networks())
    if (network->name == name) return *network;
  throw UsageError(fmt::format("there is no network '{}'", name),
                   fmt::format("use --model with one of: {}", joined(network_names(), ", ")));
}

}  // namespace halomesh
