// SPDX-License-Identifier: Apache-2.0
// The losses by name. To add one, add its files to this room, with a Registered<NamedLoss>.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "registered.hpp"
#include "src/nn/loss.hpp"

namespace halomesh {

/// Settings that a network passes to its loss, where the loss has them.
struct LossSettings {
  std::vector<double> weights{};  ///< weights of classes in the cross entropy; empty: 1
  Score score = Score::kDice;     ///< score for classes: kDice or kIou
};

/// A loss of voxels, or one of the settings of a loss, which the file that defines it registers.
struct NamedLoss {
  std::string name;
  std::string summary;  ///< for help pages
  /// `output` is the global shape of the network's output. Throws Error where the loss cannot be
  /// computed from it.
  std::unique_ptr<Loss> (*make)(const Shape& output, const LossSettings& settings) = nullptr;
};

/// A loss of the outputs of a sample. Its name may be that of a loss of voxels, too.
struct NamedSampleLoss : NamedLoss {};

/// The names of losses for such targets, in alphabetical order: kFloat32: scalars of samples;
/// kUint8: the classes of voxels.
std::vector<std::string> loss_names(DataType targets);
/// "mse: ..., ...": the summaries of losses for such targets.
std::string loss_summaries(DataType targets);

/// The loss of a name that loss_names() has, for samples where the output has one voxel and there
/// is one; throws std::logic_error for others.
std::unique_ptr<Loss> make_loss(const std::string& name, const Shape& output,
                                const LossSettings& settings = {});

}  // namespace halomesh
