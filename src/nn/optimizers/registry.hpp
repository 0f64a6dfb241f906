// SPDX-License-Identifier: Apache-2.0
// The optimizers by name. To add one, add its files to this room, with a
// Registered<NamedOptimizer>.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "registered.hpp"
#include "src/nn/optimizer.hpp"

namespace halomesh {

/// An optimizer, which the file that defines it registers.
struct NamedOptimizer {
  std::string name;
  /// Throws UsageError for settings that it does not accept.
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions& options) = nullptr;
};

/// NamedOptimizer::make of a class that is constructed from the options.
template <class One>
std::unique_ptr<Optimizer> make_one(const OptimizerOptions& options) {
  return std::make_unique<One>(options);
}

/// The names in alphabetical order.
std::vector<std::string> optimizer_names();

/// The optimizer `options.name`. Throws UsageError for an unknown name and for settings that the
/// optimizer does not accept.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace halomesh
