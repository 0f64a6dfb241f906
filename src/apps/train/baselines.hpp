// SPDX-License-Identifier: Apache-2.0
// Simple predictors that a network must beat, fitted to the training samples.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "src/nn/target_errors.hpp"

namespace halomesh {

/// A predictor and its quality on a split.
struct Baseline {
  std::string name;
  std::vector<TargetQuality> targets;
};

/// Fits predictors and evaluates them on `split`. "mean" predicts the mean of the training targets;
/// "spectrum", only if `with_spectrum`, is a quadratic regression on the logarithms of the power
/// spectra of the channels (QuadraticRegression, SpectrumFeatures). Each rank reads its share of
/// the samples, once. Throws UsageError for spectra of samples that are not cubes, and Error on a
/// stop signal or if a sample cannot be read. Collective over `world`.
std::vector<Baseline> baselines(const Comm& world, const Dataset& training, const Dataset& split,
                                bool with_spectrum);

/// Always predicts the class of each label that is the most frequent in training.
struct MajorityBaseline {
  std::vector<std::int64_t> classes;
  double accuracy = 0;  ///< on the split
};
/// Reads the labels of both splits. Collective over `world`; every rank gets the result.
MajorityBaseline majority_baseline(const Comm& world, const Dataset& training, const Dataset& split,
                                   std::int64_t classes);

}  // namespace halomesh
