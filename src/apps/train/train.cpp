// SPDX-License-Identifier: Apache-2.0
// The command `train`: one run on all ranks, or independent runs on groups of them.
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/train/instances.hpp"
#include "src/apps/train/training_run.hpp"

namespace halomesh {
namespace {

int train(const Comm& world, const Options& options) {
  if (options.get<std::int64_t>("instances") > 1) return train_instances(world, options);
  const TrainingResult result =
      run_training(world, options, bind_threads(world), {.is_last = true});
  if (result.end == TrainingEnd::kDiverged) throw divergence_error(result);
  return result.end == TrainingEnd::kStopped ? kExitStopped : kExitDone;
}

}  // namespace

int run_train(int argc, char** argv) {
  Options options("train --data DIR --out DIR [options]",
                  "Trains a network on a data set. Run it under mpirun, srun or mpiexec. The same "
                  "command,\nrepeated, resumes from the latest checkpoint.",
                  "mpirun -n 4 halomesh train --data data --out run --parts 2x1x1 --batch 8");
  add_training_options(options);
  add_model_options(options);
  options.closing(describe_resume_rules(options));
  return run_parallel(argc, argv, options,
                      [&](const Comm& world) { return train(world, options); });
}

}  // namespace halomesh
