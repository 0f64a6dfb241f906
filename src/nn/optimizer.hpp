// SPDX-License-Identifier: Apache-2.0
// The interface of optimizers, which turn summed gradients into new parameters. Must not depend on
// ranks or files.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/nn/parameters.hpp"

namespace halomesh {

/// The settings of all optimizers, by the names of the command line's options, which say whose they
/// are (src/apps/options/train_options.cpp). Each optimizer reads its own; all decay every
/// parameter, biases included, except LARS without `lars_biases`. Momentum and weight decay are
/// computed with in fp32.
struct OptimizerOptions {
  std::string name = "sgd";
  double momentum = 0.9;
  double weight_decay = 0;
  std::array<double, 2> betas{0.9, 0.999};
  double epsilon = 1e-6;
  double lars_coefficient = 0.001;
  bool lars_biases = false;
};

/// Replaces each number by its sum over the parts of the network, with equal bits on every rank.
/// Collective over the group.
using SumOverParts = std::function<void(std::span<double>)>;

/// The inputs of one update besides parameters and gradients.
struct Update {
  std::int64_t number = 0;            ///< updates before this one: the step, from 0
  float rate = 0;                     ///< learning rate
  const SumOverParts* sum = nullptr;  ///< null: the network has one part
};

/// One optimizer with its settings. Its memory lies in the states of Parameters, so that parts of a
/// tensor are updated alike wherever they are.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// The name in MLPerf logs.
  virtual std::string title() const = 0;
  /// The names of the arrays that it keeps in Parameters, zeros before the first update.
  virtual std::vector<std::string> states() const = 0;
  /// Floats per parameter that an update reads and writes, where memory bounds its time, including
  /// those of clipping with default_clip_norm().
  virtual std::int64_t traffic() const = 0;
  /// The largest norm of the gradient of all parameters together that the optimizer's definition
  /// allows before the gradient is scaled to it; 0: any.
  virtual double default_clip_norm() const { return 0; }

  /// Updates Parameters::values() and states from Parameters::diffs(), the gradient of the global
  /// batch, which it may overwrite; leaves out frozen parameters (Parameters::freeze()). Collective
  /// over the group if it calls `update.sum`, and then on every part. Allocates nothing after the
  /// first update.
  virtual void update(Parameters& parameters, const Update& update) = 0;
};

}  // namespace halomesh
