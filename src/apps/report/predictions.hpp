// SPDX-License-Identifier: Apache-2.0
// What `predict` has written: predictions beside targets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace halomesh {

/// Values of one file; `predicted[t][i]` and `target[t][i]` are of output t of sample i.
struct PredictionFile {
  std::string name;
  std::vector<std::vector<double>> predicted, target;
};

/// Reads a .csv or .h5 file of `predict`. Throws Error naming the file.
PredictionFile read_predictions(const std::filesystem::path& path);

/// How far predictions of one output are from its targets.
struct PredictionErrors {
  double mae = 0, rmse = 0, bias = 0, correlation = 0;
};
PredictionErrors errors_of(const std::vector<double>& predicted, const std::vector<double>& target);

}  // namespace halomesh
