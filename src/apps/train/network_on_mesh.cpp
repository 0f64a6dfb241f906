// SPDX-License-Identifier: Apache-2.0
// A network on the ranks of this run: see network_on_mesh.hpp.
#include "src/apps/train/network_on_mesh.hpp"

#include <utility>

#include "runtime/posix/memory_needs.hpp"
#include "src/apps/options/model_options.hpp"

namespace halomesh {

PlannedNetwork::PlannedNetwork(std::int64_t ranks, const PartGrid& parts,
                               const Options& model_options, DataType precision, bool reproducible)
    : PlannedNetwork(ranks, parts, network_spec(model_options, precision, reproducible)) {}

PlannedNetwork::PlannedNetwork(std::int64_t ranks, const PartGrid& parts, NetworkSpec network)
    : shape(make_mesh(ranks, parts)),
      spec(std::move(network)),
      model(make_model(spec)),
      geometry(model.geometry(parts)),
      loss(make_loss(spec, geometry.tensors().back().shape)) {}

namespace {

Parameters parameters_in_memory(const ModelGeometry& geometry, std::int64_t part,
                                std::vector<std::string> states) {
  const std::int64_t arrays = 2 + std::ssize(states);  // values and gradients
  return made_in_memory("storing the parameters of a part",
                        arrays * geometry.parameter_count(part) * std::int64_t{sizeof(float)},
                        [&] { return Parameters(geometry, part, std::move(states)); });
}

}  // namespace

NetworkOnMesh::NetworkOnMesh(const Comm& world, PlannedNetwork planned,
                             std::vector<std::string> states)
    : PlannedNetwork(std::move(planned)),
      mesh(world, shape),
      parameters(parameters_in_memory(geometry, mesh.part(), std::move(states))) {}

std::unique_ptr<Loss> loss_of(const NetworkSpec& network) {
  const ModelGeometry geometry = make_model(network).geometry({1, 1, 1});
  return network.make_loss(geometry.tensors().back().shape);
}

bool classifies_voxels(const NetworkSpec& network) {
  return loss_of(network)->target_type() == DataType::kUint8;
}

}  // namespace halomesh
