// SPDX-License-Identifier: Apache-2.0
// The networks by name: see registry.hpp.
#include "models/registry.hpp"

#include "error.hpp"
#include "joined.hpp"

namespace halomesh {

std::span<const Network> networks() {
  static const std::vector<Network> kAll = Registered<Network>::all();
  return kAll;
}

const Network& default_network() { return network_named("cosmoflow"); }

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Network& network : networks()) names.push_back(network.name);
  return names;
}

const Network& network_named(const std::string& name) {
  for (const Network& network : networks())
    if (network.name == name) return network;
  throw UsageError(fmt::format("there is no network '{}'", name),
                   fmt::format("use --model with one of: {}", joined(network_names(), ", ")));
}

}  // namespace halomesh
