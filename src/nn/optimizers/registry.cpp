// SPDX-License-Identifier: Apache-2.0
// The optimizers by name: see registry.hpp.
#include "src/nn/optimizers/registry.hpp"

#include "error.hpp"
#include "joined.hpp"

namespace halomesh {
namespace {

const std::vector<NamedOptimizer>& optimizers() {
  static const std::vector<NamedOptimizer> kAll = Registered<NamedOptimizer>::all();
  return kAll;
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const NamedOptimizer& optimizer : optimizers()) names.push_back(optimizer.name);
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  for (const NamedOptimizer& optimizer : optimizers())
    if (options.name == optimizer.name) return optimizer.make(options);
  throw UsageError(fmt::format("unknown optimizer \"{}\"", options.name),
                   "use --optimizer " + joined(optimizer_names(), ", "));
}

}  // namespace halomesh
