// SPDX-License-Identifier: Apache-2.0
// A network on the ranks of this run: see network_on_mesh.hpp.
#include "src/apps/train/network_on_mesh.hpp"

#include <nlohmann/json.hpp>

#include "runtime/train/checkpoint_file.hpp"
#include "src/apps/options/model_options.hpp"

namespace halomesh {

NetworkOnMesh::NetworkOnMesh(const Comm& world, const PartGrid& parts, const Options& model_options,
                             DataType precision)
    : mesh(world, make_mesh(world.size(), parts)),
      model(make_model(model_options, precision)),
      geometry(model.geometry(parts)),
      parameters(geometry, mesh.part()) {}

Options checkpoint_model_options(const Comm& world, const std::string& file) {
  // Only one rank reads, to spare shared file systems; its exception ends the other ranks.
  std::string text;
  if (world.rank() == 0) text = nlohmann::json(read_state(file).model).dump();
  text = world.broadcast(text, 0);
  return options_of_settings(nlohmann::json::parse(text).get<std::map<std::string, std::string>>(),
                             file);
}

}  // namespace halomesh
