// SPDX-License-Identifier: Apache-2.0
// A network on the ranks of a run: shared by train, eval and predict.
// Must not depend on data sets or schedules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "partition/model_geometry.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/train/checkpoint.hpp"
#include "src/apps/options/options.hpp"
#include "src/nn/model.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {

/// A network planned for `ranks` ranks.
struct PlannedNetwork {
  /// The network is that of `model_options`. With `reproducible` it has the kernels and cuts that
  /// GradientRules::reproducible needs. Throws UsageError if it cannot be built or cut so.
  PlannedNetwork(std::int64_t ranks, const PartGrid& parts, const Options& model_options,
                 DataType precision = DataType::kFloat32, bool reproducible = false);
  PlannedNetwork(std::int64_t ranks, const PartGrid& parts, NetworkSpec network);

  MeshShape shape;
  NetworkSpec spec;
  Model model;
  ModelGeometry geometry;
  std::unique_ptr<Loss> loss;  ///< its objective in training
};

/// A network with its mesh, parameters and loss. Members are in the order of their dependencies;
/// not movable, because they refer to one another.
struct NetworkOnMesh : PlannedNetwork {
  /// Collective over `world`, for whose ranks it was planned. Parameters are zero, with these
  /// `states` of an optimizer.
  NetworkOnMesh(const Comm& world, PlannedNetwork planned, std::vector<std::string> states = {});
  NetworkOnMesh(const NetworkOnMesh&) = delete;
  NetworkOnMesh& operator=(const NetworkOnMesh&) = delete;

  ProcessMesh mesh;
  Parameters parameters;
};

/// The loss of the network for samples of its input.
std::unique_ptr<Loss> loss_of(const NetworkSpec& network);
/// True if the network assigns a class to each voxel, and not numbers to a sample.
bool classifies_voxels(const NetworkSpec& network);

/// The options of the network in a checkpoint, or in the newest one of a run's directory; every
/// rank gets them from rank 0. Collective.
Options checkpoint_model_options(const Comm& world, const std::string& checkpoint);

}  // namespace halomesh
