// SPDX-License-Identifier: Apache-2.0
// Simple predictors: see baselines.hpp.
#include "src/apps/train/baselines.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/stop_signals.hpp"
#include "src/baseline/quadratic_regression.hpp"
#include "src/baseline/spectrum_features.hpp"

namespace halomesh {
namespace {

/// This rank's samples of a split: their targets, and features if requested.
struct Share {
  Rows targets, features;
};

Share read_share(const Comm& world, const Dataset& dataset, SpectrumFeatures* spectra) {
  const Box box = Box::whole(dataset.shape());
  Share share{{static_cast<std::size_t>(dataset.targets())},
              {spectra == nullptr ? 0 : static_cast<std::size_t>(spectra->size())}};
  std::vector<std::int16_t> counts(
      spectra == nullptr ? 0 : static_cast<std::size_t>(dataset.shape().volume()));
  std::vector<float> targets(share.targets.width);
  const AnyView voxels =
      spectra == nullptr ? AnyView() : TensorView<std::int16_t>{counts.data(), box, 1};
  const StopSignals signals;
  run_with_collective_errors(world, [&](const std::function<bool()>& others_failed) {
    const auto reader = dataset.reader();
    for (std::int64_t i = world.rank(); i < dataset.size() && !others_failed(); i += world.size()) {
      require(!signals.requested(), signals.name() + " received: stopped before the last sample",
              "give the same command again");
      reader->read(i, voxels, scalars(targets));
      share.targets.values.insert(share.targets.values.end(), targets.begin(), targets.end());
      if (spectra == nullptr) continue;
      const std::vector<double> row = spectra->of(counts);
      share.features.values.insert(share.features.values.end(), row.begin(), row.end());
    }
  });
  return share;
}

std::vector<double> mean_targets(const Share& share, const AddUp& add_up) {
  const std::size_t width = share.targets.width;
  std::vector<double> sums(width + 1);
  for (std::size_t r = 0; r < share.targets.count(); ++r, ++sums[width])
    for (std::size_t t = 0; t < width; ++t) sums[t] += share.targets[r][t];
  add_up(sums);
  for (std::size_t t = 0; t < width; ++t) sums[t] /= sums[width];
  sums.pop_back();
  return sums;
}

/// The quality of the predictor on all ranks' samples.
std::vector<TargetQuality> quality_with(
    const Share& share, const AddUp& add_up,
    const std::function<std::vector<double>(std::size_t row)>& predictor) {
  std::vector<double> sums(share.targets.width * kErrorSums);
  for (std::size_t r = 0; r < share.targets.count(); ++r) {
    const std::vector<double> predicted = predictor(r);
    const std::vector<float> prediction(predicted.begin(), predicted.end());
    const std::vector<float> target(share.targets[r].begin(), share.targets[r].end());
    add_errors(prediction.data(), target.data(), sums);
  }
  add_up(sums);
  return quality_of(sums);
}

/// The numbers of samples of each class of each label.
std::vector<double> class_counts(const Comm& world, const Dataset& dataset, std::int64_t classes) {
  const Share share = read_share(world, dataset, nullptr);
  std::vector<double> counts(share.targets.width * static_cast<std::size_t>(classes));
  for (std::size_t r = 0; r < share.targets.count(); ++r)
    for (std::size_t t = 0; t < share.targets.width; ++t)
      counts[t * static_cast<std::size_t>(classes) +
             static_cast<std::size_t>(share.targets[r][t])] += 1;
  world.sum(counts);
  return counts;
}

}  // namespace

MajorityBaseline majority_baseline(const Comm& world, const Dataset& training, const Dataset& split,
                                   std::int64_t classes) {
  const std::vector<double> fitted = class_counts(world, training, classes),
                            measured = class_counts(world, split, classes);
  MajorityBaseline baseline;
  double correct = 0, all = 0;
  for (auto of_label = fitted.begin(); of_label != fitted.end(); of_label += classes) {
    const auto most = std::max_element(of_label, of_label + classes);
    baseline.classes.push_back(most - of_label);
    correct += measured[static_cast<std::size_t>(most - fitted.begin())];
  }
  for (const double count : measured) all += count;
  baseline.accuracy = correct / all;
  return baseline;
}

std::vector<Baseline> baselines(const Comm& world, const Dataset& training, const Dataset& split,
                                bool with_spectrum) {
  const Shape& shape = training.shape();
  if (with_spectrum && (shape.d != shape.h || shape.d != shape.w || shape.d < 2))
    throw UsageError(
        fmt::format("--baseline spectrum: samples of {} are not cubes of 2^3 or more", shape),
        "use --baseline mean");
  if (with_spectrum && training.format().type() != DataType::kInt16)
    throw UsageError("--baseline spectrum: the samples are not counts", "use --baseline mean");
  std::optional<SpectrumFeatures> spectra;
  if (with_spectrum) spectra.emplace(shape.d, shape.c);
  const Share fitted = read_share(world, training, spectra ? &*spectra : nullptr);
  const Share measured = read_share(world, split, spectra ? &*spectra : nullptr);
  // Copies of one rank's sums are equal on any hardware.
  const AddUp add_up = [&world](std::span<double> values) {
    world.sum(values);
    world.broadcast(std::as_writable_bytes(values), 0);
  };
  std::vector<double> mean = mean_targets(fitted, add_up);
  std::vector<Baseline> all;
  all.push_back({"mean", quality_with(measured, add_up, [&](std::size_t) { return mean; })});
  if (!with_spectrum) return all;
  const QuadraticRegression regression(fitted.features, fitted.targets, add_up, {});
  all.push_back({"spectrum", quality_with(measured, add_up, [&](std::size_t row) {
                   return regression.predict(measured.features[row]);
                 })});
  return all;
}

}  // namespace halomesh
