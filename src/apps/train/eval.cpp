// SPDX-License-Identifier: Apache-2.0
// The command `eval`: how well a checkpoint predicts the targets of a data set.
// Prints the results; the pass itself is in runtime/step/evaluator.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/data/open_dataset.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/baselines.hpp"
#include "src/apps/train/checkpoint_evaluation.hpp"
#include "src/apps/train/network_on_mesh.hpp"
#include "src/apps/train/target_names.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Baseline> wanted_baselines(const Comm& world, const Options& options,
                                       const NetworkSpec& network, std::size_t targets) {
  const auto wanted = options.get<std::string>("baseline");
  if (wanted == "off") return {};
  const auto open = [&](const std::string& split) {
    return open_dataset(world, options.get<std::string>("data"), split, network.settings.input,
                        static_cast<std::int64_t>(targets));
  };
  return baselines(world, *open("train"), *open(options.get<std::string>("split")),
                   wanted == "spectrum");
}

std::string digits(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4f}", value); }

/// A row per target, and one for all of them. Baselines have fewer columns, for a line to fit a
/// terminal; the JSON file has all.
TextTable quality_table(const std::vector<std::string>& titles,
                        const std::vector<TargetQuality>& targets,
                        const std::vector<Baseline>& baselines) {
  std::vector<std::string> header{"target", "MAE", "RMSE", "R^2", "bias"};
  for (const Baseline& b : baselines) header.insert(header.end(), {b.name + ": MAE", "R^2"});
  TextTable table(header, "<" + std::string(header.size() - 1, '>'));
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const TargetQuality& q = targets[t];
    std::vector<std::string> row{titles[t], digits(q.mae), digits(q.rmse), digits(q.r2),
                                 fmt::format("{:+.4f}", q.bias)};
    for (const Baseline& b : baselines)
      row.insert(row.end(), {digits(b.targets[t].mae), digits(b.targets[t].r2)});
    table.add(row);
  }
  std::vector<std::string> all{"all", digits(mean_mae(targets)), digits(mean_rmse(targets)), "",
                               ""};
  for (const Baseline& b : baselines) all.insert(all.end(), {digits(mean_mae(b.targets)), ""});
  table.add(all);
  return table;
}

/// The names that the network gives to its classes, or "class 0", the background, and so on.
std::vector<std::string> class_titles(const NetworkSpec& network, std::size_t count) {
  std::vector<std::string> titles = network.output_names(count);
  for (std::size_t c = titles.size(); c < count; ++c) titles.push_back(fmt::format("class {}", c));
  return titles;
}

TextTable class_table(const std::vector<std::string>& titles, const Evaluation& result) {
  TextTable table({"class", "Dice", "IoU"}, "<>>");
  for (std::size_t c = 0; c < titles.size(); ++c)
    table.add({titles[c], digits(result.classes[c].dice), digits(result.classes[c].iou)});
  return table;
}

Json as_json(const std::vector<std::string>& titles, const std::vector<TargetQuality>& targets) {
  Json all = Json::array();
  for (std::size_t t = 0; t < targets.size(); ++t)
    all.push_back({{"name", titles[t]},
                   {"mae", targets[t].mae},
                   {"rmse", targets[t].rmse},
                   {"r2", targets[t].r2},  // null if it is not a number
                   {"bias", targets[t].bias}});
  return all;
}

Json as_json(const std::string& checkpoint, const Options& options, const Evaluation& result,
             const std::vector<std::string>& titles, const std::vector<Baseline>& baselines) {
  Json json = {{"checkpoint", checkpoint},
               {"data", options.get<std::string>("data")},
               {"split", options.get<std::string>("split")},
               {"samples", result.samples},
               {"seconds", result.seconds},
               {key_of(result.kind), result.score}};
  if (!result.classes.empty()) {
    json["loss"] = result.loss;
    for (std::size_t c = 0; c < titles.size(); ++c)
      json["classes"].push_back(
          {{"name", titles[c]}, {"dice", result.classes[c].dice}, {"iou", result.classes[c].iou}});
    return json;
  }
  json["mse"] = result.loss;
  json["targets"] = as_json(titles, result.targets);
  json["baselines"] = Json::object();
  for (const Baseline& b : baselines)
    json["baselines"][b.name] = {{"mae", mean_mae(b.targets)},
                                 {"targets", as_json(titles, b.targets)}};
  return json;
}

int eval(const Comm& world, const Options& options) {
  const auto file = options.get<std::string>("json");
  if (!file.empty()) check_output_file(world, file);
  const Evaluation result = evaluate_checkpoint(world, options);
  if (world.rank() == 0)
    std::cout << title_of(result.kind) << ' ' << result.score
              << (result.classes.empty() ? "\nMSE " : "\nloss ") << result.loss << "\nsamples "
              << result.samples << "\nspeed "
              << static_cast<double>(result.samples) / result.seconds << " samples/s" << std::endl;
  const std::string checkpoint = checkpoint_file(world, options);
  const NetworkSpec network = network_spec(checkpoint_model_options(world, checkpoint));
  const bool segments = !result.classes.empty();
  const std::size_t count = segments ? result.classes.size() : result.targets.size();
  const std::vector<std::string> titles =
      segments ? class_titles(network, count) : target_titles(world, options, network, count);
  if (segments && options.get<std::string>("baseline") != "off")
    throw UsageError("--baseline is for networks that predict numbers, not classes",
                     "leave it out");
  const std::vector<Baseline> others =
      segments ? std::vector<Baseline>() : wanted_baselines(world, options, network, count);
  if (world.rank() == 0 && segments) std::cout << '\n' << class_table(titles, result) << std::flush;
  if (world.rank() == 0 && !segments) {
    for (const Baseline& b : others)
      std::cout << (b.name == "mean" ? "MAE of always predicting the training mean "
                                     : "MAE of a regression on power spectra ")
                << mean_mae(b.targets) << '\n';
    std::cout << '\n' << quality_table(titles, result.targets, others) << std::flush;
  }
  if (!file.empty())
    write_record(world, file, as_json(checkpoint, options, result, titles, others));
  return kExitDone;
}

}  // namespace

int run_eval(int argc, char** argv) {
  Options options("eval --checkpoint FILE --data DIR [options]",
                  "Measures the quality of a checkpoint on a data set, on any mesh. Every sample "
                  "counts exactly once.",
                  "mpirun -n 4 halomesh eval --checkpoint run --data data --parts 2x1x1");
  add_evaluation_options(options);
  options
      .add_choice("baseline", {"off", "mean", "spectrum"}, "off",
                  "compare with what is fitted to train/: mean (also without a value): always "
                  "predict the mean of its targets; spectrum: that and a quadratic regression on "
                  "the power spectra of the channels, which reads all of train/")
      .implicit("mean")
      .add<std::string>("json", "FILE", "", "also write the results as JSON");
  return run_parallel(argc, argv, options, [&](const Comm& world) { return eval(world, options); });
}

}  // namespace halomesh
