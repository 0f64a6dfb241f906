// SPDX-License-Identifier: Apache-2.0
// A network on the ranks of this run: see network_on_mesh.hpp.
#include "src/apps/train/network_on_mesh.hpp"

#include <utility>

#include "src/apps/options/model_options.hpp"

namespace halomesh {

PlannedNetwork::PlannedNetwork(std::int64_t ranks, const PartGrid& parts,
                               const Options& model_options, DataType precision, bool reproducible)
    : shape(make_mesh(ranks, parts)),
      spec(network_spec(model_options, precision, reproducible)),
      model(make_model(spec)),
      geometry(model.geometry(parts)),
      loss(spec.make_loss(geometry.tensors().back().shape)) {}

NetworkOnMesh::NetworkOnMesh(const Comm& world, PlannedNetwork planned,
                             std::vector<std::string> states)
    : PlannedNetwork(std::move(planned)),
      mesh(world, shape),
      parameters(geometry, mesh.part(), std::move(states)) {}

bool classifies_voxels(const NetworkSpec& network) {
  const ModelGeometry geometry = make_model(network).geometry({1, 1, 1});
  return network.make_loss(geometry.tensors().back().shape)->target_type() == DataType::kUint8;
}

}  // namespace halomesh
