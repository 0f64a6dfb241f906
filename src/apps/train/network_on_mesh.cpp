// SPDX-License-Identifier: Apache-2.0
// A network on the ranks of this run: see network_on_mesh.hpp.
#include "src/apps/train/network_on_mesh.hpp"

#include <utility>

#include "src/apps/options/model_options.hpp"

namespace halomesh {

NetworkOnMesh::NetworkOnMesh(const Comm& world, const PartGrid& parts, const Options& model_options,
                             DataType precision, std::vector<std::string> states, bool reproducible)
    : mesh(world, make_mesh(world.size(), parts)),
      model(make_model(model_options, precision, reproducible)),
      geometry(model.geometry(parts)),
      parameters(geometry, mesh.part(), std::move(states)) {}

}  // namespace halomesh
