// SPDX-License-Identifier: Apache-2.0
// The network of a checkpoint: see network_on_mesh.hpp.
#include <nlohmann/json.hpp>

#include "runtime/train/checkpoint_file.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

Options checkpoint_model_options(const Comm& world, const std::string& file) {
  // Only one rank reads, to spare shared file systems; its exception ends the other ranks.
  std::string text;
  if (world.rank() == 0) text = nlohmann::json(read_state(file).model).dump();
  text = world.broadcast(text, 0);
  return options_of_settings(nlohmann::json::parse(text).get<std::map<std::string, std::string>>(),
                             file);
}

}  // namespace halomesh
