// SPDX-License-Identifier: Apache-2.0
// The command `eval`: how well a checkpoint predicts the targets of a data set.
// Prints the results; the pass itself is in runtime/step/evaluator.
#include <cmath>
#include <iostream>
#include <vector>

#include "runtime/data/open_dataset.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/checkpoint_evaluation.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {
namespace {

// Sums f(targets) over the samples of all ranks; each rank reads its share.
template <class F>
std::vector<double> sum_over_targets(const Comm& world, const Dataset& dataset, F f) {
  const auto count = static_cast<std::size_t>(dataset.targets());
  std::vector<double> sums(count);
  std::vector<float> targets(count);
  const auto reader = dataset.reader();
  for (std::int64_t i = world.rank(); i < dataset.size(); i += world.size()) {
    reader->read(i, {}, targets);
    for (std::size_t t = 0; t < count; ++t) sums[t] += f(t, targets[t]);
  }
  world.sum(sums);
  return sums;
}

/// The MAE on `split` of always predicting the mean of the training targets.
double mae_of_training_mean(const Comm& world, const Options& options, const Options& model) {
  const auto open = [&](const std::string& split) {
    return open_dataset(world, options.get<std::string>("data"), split, model.get<Shape>("input"),
                        model.get<std::int64_t>("targets"));
  };
  const auto training = open("train");
  std::vector<double> mean =
      sum_over_targets(world, *training, [](std::size_t, float target) { return target; });
  for (double& m : mean) m /= static_cast<double>(training->size());
  const auto split = open(options.get<std::string>("split"));
  double mae = 0;
  for (double sum : sum_over_targets(world, *split, [&](std::size_t t, float target) {
         return std::abs(static_cast<double>(target) - mean[t]);
       }))
    mae += sum;
  return mae / static_cast<double>(split->size() * split->targets());
}

int eval(const Comm& world, const Options& options) {
  const Evaluation result = evaluate_checkpoint(world, options);
  if (world.rank() == 0)
    std::cout << "MAE " << result.mae << "\nMSE " << result.loss << "\nsamples " << result.samples
              << "\nspeed " << static_cast<double>(result.samples) / result.seconds << " samples/s"
              << std::endl;
  if (!options.get<bool>("baseline")) return kExitDone;
  const Options model = checkpoint_model_options(world, checkpoint_file(world, options));
  const double baseline = mae_of_training_mean(world, options, model);
  if (world.rank() == 0)
    std::cout << "MAE of always predicting the training mean " << baseline << std::endl;
  return kExitDone;
}

}  // namespace

int run_eval(int argc, char** argv) {
  Options options("eval --checkpoint FILE --data DIR [options]",
                  "Measures the quality of a checkpoint on a data set, on any mesh. Every sample "
                  "counts exactly once.",
                  "mpirun -n 4 halomesh eval --checkpoint run --data data --parts 2x1x1");
  add_evaluation_options(options);
  options.add_switch(
      "baseline",
      "also print the MAE of always predicting the training mean; reads train/ as well");
  return run_parallel(argc, argv, options, [&](const Comm& world) { return eval(world, options); });
}

}  // namespace halomesh
