// The command `plan`: prints the geometry of a network on a mesh. Needs no MPI launch.
#include <cstdint>
#include <iostream>
#include <vector>

#include "partition/geometry_table.hpp"
#include "src/apps/commands.hpp"
#include "src/apps/model_options.hpp"
#include "src/apps/parallel.hpp"
#include "src/apps/train_options.hpp"

namespace halomesh {
namespace {

Options plan_options() {
  Options options("plan [options]",
                  "Prints which part of a mesh owns, needs, receives and sends which box of each "
                  "tensor,\nwho holds which parameter, and the memory that a rank needs.");
  add_model_options(options);
  options.group("Mesh")
      .add<PartGrid>("parts", "DxHxW", PartGrid{}, "parts that a sample is cut into")
      .add<std::int64_t>("local-batch", "B", 1, "samples a replica takes each step, for memory")
      .at_least(1)
      .add<std::int64_t>("part", "P", -1, "the part to be shown; -1: the busiest")
      .at_least(-1);
  options.accept_in_config(all_run_options());
  return options;
}

std::vector<std::int64_t> flops_of_layers(const Model& model, const ModelGeometry& geometry) {
  std::vector<std::int64_t> flops;
  for (std::size_t l = 0; l < model.layers().size(); ++l)
    flops.push_back(model.layers()[l].layer->forward_flops(geometry.layers()[l].src_shapes));
  return flops;
}

}  // namespace

int run_plan(int argc, char** argv) {
  Options options = plan_options();
  options.parse(argc, argv);
  if (options.help_wanted()) {
    std::cout << options.help();
    return kExitDone;
  }
  const Model model = make_model(options);
  const ModelGeometry geometry = model.geometry(options.get<PartGrid>("parts"));
  const GeometryTable table(geometry, flops_of_layers(model, geometry));
  const auto part = options.get<std::int64_t>("part");
  table.print(std::cout, part < 0 ? table.busiest_part() : part,
              options.get<std::int64_t>("local-batch"));
  return kExitDone;
}

}  // namespace halomesh
