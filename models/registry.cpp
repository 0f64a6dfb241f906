// SPDX-License-Identifier: Apache-2.0
// Creates networks by name: see registry.hpp.
#include "models/registry.hpp"

#include <array>

#include "error.hpp"

namespace halomesh {
namespace {

struct Network {
  const char* name;
  Model (*make)(const CosmoFlowOptions& options);
};

constexpr std::array<Network, 1> kNetworks = {{{"cosmoflow", make_cosmoflow}}};

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  names.reserve(kNetworks.size());
  for (const Network& network : kNetworks) names.emplace_back(network.name);
  return names;
}

Model make_network(const std::string& name, const CosmoFlowOptions& options) {
  std::string known;
  for (const Network& network : kNetworks) {
    if (name == network.name) return network.make(options);
    known += (known.empty() ? "" : ", ") + std::string(network.name);
  }
  throw UsageError(fmt::format("there is no network '{}'", name),
                   fmt::format("use --model with one of: {}", known));
}

}  // namespace halomesh
