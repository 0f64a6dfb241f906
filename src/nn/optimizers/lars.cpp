// SPDX-License-Identifier: Apache-2.0
// LARS: see lars.hpp.
#include "src/nn/optimizers/lars.hpp"

#include <cmath>
#include <span>

#include "error.hpp"
#include "src/nn/optimizers/registry.hpp"
#include "src/nn/optimizers/sgd.hpp"

namespace halomesh {

namespace {

SgdOptions sgd_of(const OptimizerOptions& o) {
  return {static_cast<float>(o.momentum), static_cast<float>(o.weight_decay)};
}

}  // namespace

void validate_lars(const OptimizerOptions& options) {
  validate(sgd_of(options));
  if (!(options.lars_coefficient > 0 && std::isfinite(options.lars_coefficient)))
    throw UsageError(
        fmt::format("--lars-coefficient {:g}: nothing would be trained", options.lars_coefficient),
        "give a finite number above 0, such as 0.001");
  if (!(options.epsilon >= 0 && std::isfinite(options.epsilon)))
    throw UsageError(fmt::format("--epsilon {:g} is out of range", options.epsilon),
                     "give a finite number of at least 0");
}

Lars::Lars(const OptimizerOptions& options) : options_(options) { validate_lars(options); }

void Lars::update(Parameters& parameters, const Update& update) {
  norms_.take(parameters, update.sum);
  for (const HolderGroup& group : parameters.groups())
    for (const ParameterRange& range : group.trained()) {
      SgdOptions sgd = sgd_of(options_);
      double ratio = 1;
      if (scales(parameters, range.placement)) {
        const double w = norms_.of_values(range.placement), g = norms_.of_diffs(range.placement);
        if (w > 0 && g > 0)
          ratio = options_.lars_coefficient * w /
                  (g + static_cast<double>(sgd.weight_decay) * w + options_.epsilon);
      } else {
        sgd.weight_decay = 0;
      }
      const auto at = static_cast<std::size_t>(range.offset);
      const auto count = static_cast<std::size_t>(range.volume);
      sgd_step(sgd, static_cast<float>(static_cast<double>(update.rate) * ratio),
               parameters.diffs().subspan(at, count), parameters.state(0).subspan(at, count),
               parameters.values().subspan(at, count));
    }
}

namespace {

const Registered<NamedOptimizer> kLars([] { return NamedOptimizer{"lars", make_one<Lars>}; });

}  // namespace

}  // namespace halomesh
