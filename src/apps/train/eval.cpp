// SPDX-License-Identifier: Apache-2.0
// The command `eval`: measures how well a checkpoint predicts the targets of a data set. Prints the
// results; the pass itself is in runtime/step/evaluator.
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "joined.hpp"
#include "printable.hpp"
#include "runtime/data/open_dataset.hpp"
#include "runtime/log/metrics.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/run_record.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/baselines.hpp"
#include "src/apps/train/checkpoint_evaluation.hpp"
#include "src/apps/train/class_baselines.hpp"
#include "src/apps/train/network_on_mesh.hpp"
#include "src/apps/train/target_names.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

using Json = nlohmann::ordered_json;

/// A kind of networks with its baselines, the simplest first.
struct BaselineKind {
  const char* networks;
  std::vector<std::string> names;
};

/// The --baseline for a network with this loss; "off" for none. Throws UsageError if it is for
/// another kind of network.
std::string baseline_for(const Options& options, const Loss& loss) {
  const std::array<BaselineKind, 3> kinds{{{"predict numbers", {"mean", "spectrum"}},
                                           {"classify voxels", {"background", "threshold"}},
                                           {"classify samples", {"majority"}}}};
  const bool segments = loss.target_type() == DataType::kUint8;
  const BaselineKind& own = kinds[segments ? 1 : loss.sample_classes() > 0 ? 2 : 0];
  auto wanted = options.get<std::string>("baseline");
  if (wanted == "auto") return own.names.front();
  for (const BaselineKind& kind : kinds)
    if (&kind != &own && std::ranges::find(kind.names, wanted) != kind.names.end())
      throw UsageError(fmt::format("--baseline {} is for networks that {}", wanted, kind.networks),
                       fmt::format("use --baseline {}", joined(own.names, " or ")));
  return wanted;
}

std::vector<Baseline> wanted_baselines(const Comm& world, const Options& options,
                                       const NetworkSpec& network, std::size_t targets) {
  const std::string wanted = baseline_for(options, *loss_of(network));
  if (wanted == "off") return {};
  const auto open = [&](const std::string& split) {
    return open_dataset(world, evaluated_source(world, options), split,
                        sample_shape(options, network), static_cast<std::int64_t>(targets));
  };
  return baselines(world, *open("train"), *open(options.get<std::string>("split")),
                   wanted == "spectrum");
}

std::vector<ClassBaseline> wanted_class_baselines(const Comm& world, const Options& options,
                                                  const NetworkSpec& network, std::size_t classes) {
  const std::string wanted = baseline_for(options, *loss_of(network));
  if (wanted == "off") return {};
  const auto open = [&](const std::string& split) {
    return open_dataset(world, evaluated_source(world, options), split,
                        shape_of_samples(options, network),
                        TargetSpec::labels(static_cast<std::int64_t>(classes)));
  };
  const auto training = wanted == "threshold" ? open("train") : nullptr;
  return class_baselines(world, training.get(), *open(options.get<std::string>("split")));
}

std::string digits(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4f}", value); }

/// A row per target, and one for all targets. Baselines have fewer columns, so that a line fits a
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

double mean_dice(std::span<const ClassQuality> classes) {
  double sum = 0;
  for (const ClassQuality& q : classes) sum += q.dice;
  return sum / static_cast<double>(classes.size());
}

double mean_iou(std::span<const ClassQuality> classes) {
  double sum = 0;
  for (const ClassQuality& q : classes) sum += q.iou;
  return sum / static_cast<double>(classes.size());
}

/// A row per class, then the mean without the first class, and the mean of all.
TextTable class_table(const std::vector<std::string>& titles, const Evaluation& result,
                      const std::vector<ClassBaseline>& baselines) {
  std::vector<std::string> header{"class", "Dice", "IoU"};
  for (const ClassBaseline& b : baselines) header.insert(header.end(), {b.name + ": Dice", "IoU"});
  TextTable table(header, "<" + std::string(header.size() - 1, '>'));
  const auto add = [&](const std::string& title, std::size_t first, std::size_t end) {
    std::vector<std::string> row{title};
    const auto append = [&](const std::vector<ClassQuality>& classes) {
      const auto some = std::span(classes).subspan(first, end - first);
      row.insert(row.end(), {digits(mean_dice(some)), digits(mean_iou(some))});
    };
    append(result.classes);
    for (const ClassBaseline& b : baselines) append(b.classes);
    table.add(row);
  };
  for (std::size_t c = 0; c < titles.size(); ++c) add(titles[c], c, c + 1);
  add("foreground", 1, titles.size());
  add("all", 0, titles.size());
  return table;
}

Json as_json(const std::vector<std::string>& titles, const std::vector<ClassQuality>& classes) {
  Json all = Json::array();
  for (std::size_t c = 0; c < titles.size(); ++c)
    all.push_back({{"name", titles[c]}, {"dice", classes[c].dice}, {"iou", classes[c].iou}});
  return all;
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

/// The entries that results of all networks share.
Json result_as_json(const std::string& checkpoint, const Options& options,
                    const Evaluation& result) {
  return {{"checkpoint", checkpoint},
          {"data", options.get<std::string>("data")},
          {"split", options.get<std::string>("split")},
          {"samples", result.samples},
          {"seconds", result.seconds}};
}

/// Prints the quality of classes; returns it as JSON. Collective.
Json report_classes(const Comm& world, const Options& options, const NetworkSpec& network,
                    const Evaluation& result, Json json) {
  const std::size_t count = result.classes.size();
  const std::vector<std::string> titles = class_names(world, options, network, count);
  const std::vector<ClassBaseline> others = wanted_class_baselines(world, options, network, count);
  if (world.rank() == 0) {
    std::cout << '\n' << class_table(titles, result, others) << std::flush;
    warn_of_absent_classes(options, options.get<std::string>("split"), titles, result);
  }
  json["dice"] = mean_dice(std::span(result.classes).subspan(1));
  json["iou"] = mean_iou(result.classes);
  json["loss"] = result.loss;
  json["classes"] = as_json(titles, result.classes);
  json["baselines"] = Json::object();
  for (const ClassBaseline& b : others)
    json["baselines"][b.name] = {{"dice", mean_dice(std::span(b.classes).subspan(1))},
                                 {"iou", mean_iou(b.classes)},
                                 {"classes", as_json(titles, b.classes)}};
  return json;
}

/// Prints the quality of targets; returns it as JSON. Collective.
Json report_targets(const Comm& world, const Options& options, const NetworkSpec& network,
                    const Evaluation& result, Json json) {
  const std::size_t count = result.targets.size();
  const std::vector<std::string> titles = target_titles(world, options, network, count);
  const std::vector<Baseline> others = wanted_baselines(world, options, network, count);
  if (world.rank() == 0) {
    for (const Baseline& b : others)
      std::cout << (b.name == "mean" ? "MAE of always predicting the training mean "
                                     : "MAE of a regression on power spectra ")
                << mean_mae(b.targets) << '\n';
    std::cout << '\n' << quality_table(titles, result.targets, others) << std::flush;
  }
  json["mae"] = result.score;
  json["mse"] = result.loss;
  json["targets"] = as_json(titles, result.targets);
  json["baselines"] = Json::object();
  for (const Baseline& b : others)
    json["baselines"][b.name] = {{"mae", mean_mae(b.targets)},
                                 {"targets", as_json(titles, b.targets)}};
  return json;
}

/// A row per class of a label: its samples, the shares of them and of its predictions that are
/// correct and, of few classes, what its samples are predicted to be.
TextTable label_table(const std::string& label, const std::vector<std::string>& classes,
                      const ConfusionMatrix& confusion) {
  constexpr std::size_t kMostColumns = 10;
  const bool is_small = classes.size() <= kMostColumns;
  std::vector<std::string> header{label, "samples", "recall", "precision"};
  for (const std::string& name : is_small ? classes : std::vector<std::string>())
    header.push_back("as " + name);
  TextTable table(header, "<" + std::string(header.size() - 1, '>'));
  for (std::size_t c = 0; c < classes.size(); ++c) {
    std::int64_t samples = 0, predicted = 0;
    for (std::size_t other = 0; other < classes.size(); ++other) {
      samples += confusion[c][other];
      predicted += confusion[other][c];
    }
    const auto share = [&](std::int64_t all) {
      return digits(static_cast<double>(confusion[c][c]) / static_cast<double>(all));
    };
    std::vector<std::string> row{classes[c], std::to_string(samples), share(samples),
                                 share(predicted)};
    for (std::size_t other = 0; is_small && other < classes.size(); ++other)
      row.push_back(std::to_string(confusion[c][other]));
    table.add(row);
  }
  return table;
}

/// Prints the quality of classes of samples; returns it as JSON. Collective.
Json report_labels(const Comm& world, const Options& options, const NetworkSpec& network,
                   const Evaluation& result, Json json) {
  const auto loss = loss_of(network);
  const LabelNames names = label_names(world, options, network, *loss);
  const ClassScores& scores = *result.labels;
  json["accuracy"] = result.score;
  json["loss"] = result.loss;
  add_to_json(json, scores);
  json["labels"] = names.labels;
  json["classes"] = names.classes;
  json["baselines"] = Json::object();
  std::string baseline;
  if (baseline_for(options, *loss) != "off") {
    const TargetSpec targets =
        targets_of(*loss, make_model(network).geometry({1, 1, 1}).tensors().back().shape);
    const auto open = [&](const std::string& split) {
      return open_dataset(world, evaluated_source(world, options), split,
                          sample_shape(options, network), targets);
    };
    const MajorityBaseline majority = majority_baseline(
        world, *open("train"), *open(options.get<std::string>("split")), loss->sample_classes());
    std::vector<std::string> always;
    for (const std::int64_t c : majority.classes)
      always.push_back(printable(names.classes[static_cast<std::size_t>(c)]));
    json["baselines"]["majority"] = {{"classes", always}, {"accuracy", majority.accuracy}};
    baseline = fmt::format("accuracy of always predicting {} {:g}\n", joined(always, ", "),
                           majority.accuracy);
  }
  if (world.rank() == 0) {
    std::cout << "balanced accuracy " << scores.balanced_accuracy << "\nAUC " << scores.auc << '\n'
              << baseline;
    for (std::size_t l = 0; l < names.labels.size(); ++l)
      std::cout << '\n' << label_table(names.labels[l], names.classes, scores.confusion[l]);
    std::cout << std::flush;
  }
  return json;
}

int eval(const Comm& world, const Options& options) {
  const auto file = options.get<std::string>("json");
  if (!file.empty()) check_output_file(world, options, "json");
  const NetworkSpec network =
      network_spec(checkpoint_model_options(world, options.get<std::string>("checkpoint")));
  baseline_for(options, *loss_of(network));
  std::string checkpoint;
  const Evaluation result = [&] {  // whose memory is released before baselines are computed
    CheckpointEvaluation evaluation(world, options);
    checkpoint = evaluation.checkpoint();
    return evaluation.run();
  }();
  const bool segments = !result.classes.empty();
  if (world.rank() == 0)
    std::cout << title_of(result.kind) << ' ' << result.score
              << (segments || result.labels ? "\nloss " : "\nMSE ") << result.loss << "\nsamples "
              << result.samples << "\nspeed "
              << static_cast<double>(result.samples) / result.seconds << " samples/s" << std::endl;
  Json json = result_as_json(checkpoint, options, result);
  const auto report = segments ? report_classes : result.labels ? report_labels : report_targets;
  json = report(world, options, network, result, std::move(json));
  if (!file.empty()) write_record(world, file, json);
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
      .add_choice(
          "baseline", {"off", "auto", "mean", "spectrum", "background", "threshold", "majority"},
          "off",
          "compare with what is fitted to train/; auto (also without a value): the simplest "
          "for the network; mean: always predict the mean of its targets; spectrum: that and a "
          "quadratic regression on "
          "the power spectra of the channels, which reads all of train/; of classes of "
          "voxels: background: always the first class; threshold: that and, for each "
          "class, the interval of the values of one channel that fits it best in train/; of "
          "classes of samples: majority: "
          "always the most frequent one")
      .implicit("auto")
      .add<std::string>("json", "FILE", "", "also write the results as JSON");
  return run_parallel(argc, argv, options, [&](const Comm& world) { return eval(world, options); });
}

}  // namespace halomesh
