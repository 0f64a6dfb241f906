// SPDX-License-Identifier: Apache-2.0
// The settings of AdamW and LAMB: see adam_moments.hpp.
#include "src/nn/optimizers/adam_moments.hpp"

#include "error.hpp"
#include "joined.hpp"

namespace halomesh {

void validate_adam(const OptimizerOptions& options) {
  for (const double beta : options.betas)
    if (!(beta >= 0 && beta < 1))
      throw UsageError(fmt::format("--betas {} is out of range", joined(options.betas, ",")),
                       "give two numbers of at least 0 and below 1, such as 0.9,0.999");
  const auto epsilon = static_cast<float>(options.epsilon);
  if (!(epsilon > 0 && std::isnormal(epsilon)))
    throw UsageError(
        fmt::format("--epsilon {:g}: adamw and lamb divide by it where a gradient is 0",
                    options.epsilon),
        "give a number above 0 that fp32 can hold, such as 1e-6");
  if (!(options.weight_decay >= 0 && std::isfinite(static_cast<float>(options.weight_decay))))
    throw UsageError(fmt::format("--weight-decay {:g} is out of range", options.weight_decay),
                     "give a finite number of at least 0");
}

}  // namespace halomesh
