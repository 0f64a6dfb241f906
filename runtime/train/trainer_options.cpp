// SPDX-License-Identifier: Apache-2.0
// The settings of a training run: see trainer_options.hpp.
#include "runtime/train/trainer_options.hpp"

#include <algorithm>

#include "error.hpp"
#include "src/nn/optimizers/registry.hpp"

namespace halomesh {

SampleOrder sample_order(const TrainerOptions& options, const MeshShape& mesh,
                         const Dataset& dataset, std::int64_t passes) {
  return {options.shuffle, options.seed, dataset.size(), mesh.replicas,
          pass_batch(options.global_batch, mesh, passes)};
}

std::int64_t pass_batch(std::int64_t global_batch, const MeshShape& mesh, std::int64_t passes) {
  const std::int64_t local = local_batch(global_batch, mesh);
  if (passes < 1 || local % passes != 0)
    throw UsageError(fmt::format("--accumulate {} does not divide the {} samples of a replica in a "
                                 "step",
                                 passes, local),
                     fmt::format("use a smaller --accumulate, or --batch {} or a multiple of it",
                                 mesh.replicas * std::max<std::int64_t>(passes, 1)));
  return local / passes;
}

std::vector<std::string> states_of(const TrainerOptions& options) {
  std::vector<std::string> states = make_optimizer(options.optimizer)->states();
  if (options.payload == DataType::kBfloat16) states.emplace_back(kGradientResidual);
  return states;
}

GradientRules gradient_rules(const TrainerOptions& options) {
  const auto optimizer = make_optimizer(options.optimizer);
  return {options.accumulate, options.clip_norm.value_or(optimizer->default_clip_norm()),
          options.payload, options.reproducible, options.memory};
}

}  // namespace halomesh
