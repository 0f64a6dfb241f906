// SPDX-License-Identifier: Apache-2.0
// A network placed on the ranks of this run: what train, eval and predict have in common.
// Knows no data and no schedule.
#pragma once

#include <string>

#include "partition/model_geometry.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/train/checkpoint.hpp"
#include "src/apps/options/options.hpp"
#include "src/nn/model.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {

/// Members in the order in which they depend on each other; not movable, as they refer to one
/// another.
struct NetworkOnMesh {
  /// Collective over `world`. The network is that of `model_options`; parameters are zero.
  NetworkOnMesh(const Comm& world, const PartGrid& parts, const Options& model_options,
                DataType precision = DataType::kFloat32);
  NetworkOnMesh(const NetworkOnMesh&) = delete;
  NetworkOnMesh& operator=(const NetworkOnMesh&) = delete;

  ProcessMesh mesh;
  Model model;
  ModelGeometry geometry;
  Parameters parameters;
};

/// The options of the network in a checkpoint; every rank reads them from rank 0. Collective.
Options checkpoint_model_options(const Comm& world, const std::string& file);

}  // namespace halomesh
