// SPDX-License-Identifier: Apache-2.0
// A network on the ranks of this run: shared by train, eval and predict.
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

/// Members are in the order of their dependencies; not movable, because they refer to one another.
struct NetworkOnMesh {
  /// Collective over `world`. The network is that of `model_options`; parameters are zero, with
  /// these `states` of an optimizer. `reproducible`: with the kernels and cuts that
  /// GradientRules::reproducible needs.
  NetworkOnMesh(const Comm& world, const PartGrid& parts, const Options& model_options,
                DataType precision = DataType::kFloat32, std::vector<std::string> states = {},
                bool reproducible = false);
  NetworkOnMesh(const NetworkOnMesh&) = delete;
  NetworkOnMesh& operator=(const NetworkOnMesh&) = delete;

  ProcessMesh mesh;
  NetworkSpec spec;
  Model model;
  ModelGeometry geometry;
  Parameters parameters;
  std::unique_ptr<Loss> loss;  ///< what it is trained for
};

/// Whether the network gives a class to each voxel, and not numbers.
bool classifies_voxels(const NetworkSpec& network);

/// The options of the network in a checkpoint; every rank reads them from rank 0. Collective.
Options checkpoint_model_options(const Comm& world, const std::string& file);

}  // namespace halomesh
