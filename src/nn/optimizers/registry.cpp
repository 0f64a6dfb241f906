// SPDX-License-Identifier: Apache-2.0
// The optimizers by name: see registry.hpp.
#include "src/nn/optimizers/registry.hpp"

#include <array>

#include "error.hpp"
#include "joined.hpp"
#include "src/nn/optimizers/adamw.hpp"
#include "src/nn/optimizers/lamb.hpp"
#include "src/nn/optimizers/sgd.hpp"

namespace halomesh {
namespace {

using Made = std::unique_ptr<Optimizer>;

AdamOptions adam(const OptimizerOptions& o) { return {o.betas, o.epsilon, o.weight_decay}; }

struct Entry {
  const char* name;
  Made (*make)(const OptimizerOptions&);
};

constexpr std::array kOptimizers = std::to_array<Entry>({
    {"sgd",
     [](const OptimizerOptions& o) -> Made {
       return std::make_unique<Sgd>(SgdOptions{o.momentum, o.weight_decay});
     }},
    {"nesterov",
     [](const OptimizerOptions& o) -> Made {
       return std::make_unique<Sgd>(SgdOptions{o.momentum, o.weight_decay, true});
     }},
    {"adamw", [](const OptimizerOptions& o) -> Made { return std::make_unique<AdamW>(adam(o)); }},
    {"lamb", [](const OptimizerOptions& o) -> Made { return std::make_unique<Lamb>(adam(o)); }},
});

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kOptimizers) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  for (const Entry& entry : kOptimizers)
    if (options.name == entry.name) return entry.make(options);
  throw UsageError(fmt::format("optimizer \"{}\"", options.name),
                   "use --optimizer " + joined(optimizer_names(), ", "));
}

}  // namespace halomesh
