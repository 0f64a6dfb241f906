// SPDX-License-Identifier: Apache-2.0
// The optimizers by name: see registry.hpp.
#include "src/nn/optimizers/registry.hpp"

#include <array>

#include "error.hpp"
#include "joined.hpp"
#include "src/nn/optimizers/adamw.hpp"
#include "src/nn/optimizers/lamb.hpp"
#include "src/nn/optimizers/lars.hpp"
#include "src/nn/optimizers/sgd.hpp"

namespace halomesh {
namespace {

using Made = std::unique_ptr<Optimizer>;

Made sgd(const OptimizerOptions& o, bool nesterov) {
  return std::make_unique<Sgd>(
      SgdOptions{static_cast<float>(o.momentum), static_cast<float>(o.weight_decay), nesterov});
}

Made lars(const OptimizerOptions& o) {
  return std::make_unique<Lars>(LarsOptions{static_cast<float>(o.momentum),
                                            static_cast<float>(o.weight_decay), o.lars_coefficient,
                                            o.epsilon, o.lars_biases});
}

template <class T>
Made adam(const OptimizerOptions& o) {
  return std::make_unique<T>(AdamOptions{o.betas, o.epsilon, static_cast<float>(o.weight_decay)});
}

struct Entry {
  const char* name;
  Made (*make)(const OptimizerOptions&);
};

constexpr std::array kOptimizers = std::to_array<Entry>({
    {"sgd", [](const OptimizerOptions& o) { return sgd(o, false); }},
    {"nesterov", [](const OptimizerOptions& o) { return sgd(o, true); }},
    {"adamw", adam<AdamW>},
    {"lamb", adam<Lamb>},
    {"lars", lars},
});

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  names.reserve(kOptimizers.size());
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
