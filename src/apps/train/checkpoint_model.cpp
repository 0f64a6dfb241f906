// SPDX-License-Identifier: Apache-2.0
// The network of a checkpoint: see network_on_mesh.hpp.
#include <nlohmann/json.hpp>

#include "runtime/log/json_bytes.hpp"
#include "runtime/mpi/collective_errors.hpp"
#include "runtime/train/checkpoint.hpp"
#include "runtime/train/checkpoint_file.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {

Options checkpoint_model_options(const Comm& world, const std::string& checkpoint) {
  return with_newest_checkpoint(world, checkpoint, [&](const std::string& file) {
    // Only one rank reads, to spare shared file systems.
    const std::string text =
        on_first_rank(world, [&] { return dump_json(nlohmann::json(read_state(file).model)); });
    return options_of_settings(parse_json(text).get<std::map<std::string, std::string>>(), file);
  });
}

}  // namespace halomesh
