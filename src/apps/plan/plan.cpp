// SPDX-License-Identifier: Apache-2.0
// The command `plan`: prints the geometry of a network on a mesh. Needs no MPI launch.
#include <array>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "narrow.hpp"
#include "partition/geometry_table.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/padding_option.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/plan/machine_plan.hpp"
#include "src/apps/plan/memory_forecast.hpp"
#include "src/apps/plan/picture.hpp"
#include "src/apps/plan/site_profile.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

Options plan_options() {
  Options options("plan [options]",
                  "Prints the geometry of a network on a mesh: the box of each tensor that a part "
                  "owns, needs,\nreceives and sends, the holders of each parameter, and the memory "
                  "per rank. With --machine:\nhow long each mesh takes there. Needs no MPI launch.",
                  "halomesh plan --config FILE --machine fugaku --nodes 8192");
  add_model_options(options);
  options.group("Mesh")
      .add<PartGrid>("parts", "DxHxW", PartGrid{},
                     "parts along depth, height and width that each sample is cut into")
      .add<std::int64_t>("local-batch", "B", 1, "samples per replica and step, for the memory")
      .at_least(1)
      .at_most(4096)
      .needs("machine", {""})
      .add<std::int64_t>(
          "threads", "N", 0,
          "threads per rank, for the scratch of kernels; also print how evenly they share the "
          "loops of convolutions")
      .at_least(0)
      .at_most(1024)
      .needs("machine", {""})
      .add<std::int64_t>("part", "P", -1, "part to show; -1: the busiest")
      .at_least(-1)
      .needs("machine", {""});
  add_memory_options(options);
  add_padding_option(options);
  options.add<std::string>("picture", "FILE", "", "also draw the mesh as an SVG picture")
      .needs("machine", {""})
      .add<std::int64_t>("replicas", "R", 2, "replicas of the mesh, for sums and the picture")
      .at_least(1)
      .needs("machine", {""});
  add_machine_options(options);
  options.accept_in_config(all_run_options());
  return options;
}

std::vector<std::int64_t> flops_of_layers(const Model& model, const ModelGeometry& geometry) {
  std::vector<std::int64_t> flops;
  for (std::size_t l = 0; l < model.layers().size(); ++l)
    flops.push_back(model.layers()[l].layer->forward_flops(geometry.layers()[l].src_shapes));
  return flops;
}

// Prints the memory of the chosen part and, if it is another, of the part that needs most. Returns
// the line that sums it up.
std::string print_memory(std::ostream& out, MemoryForecast& memory, const ModelGeometry& geometry,
                         std::int64_t part) {
  std::vector<std::int64_t> parts{part};
  if (const std::int64_t largest = memory.largest(geometry); largest != part)
    parts.push_back(largest);
  std::vector<PartMemory> columns;
  std::vector<std::string> heads{fmt::format("memory of a process, {} local sample{}",
                                             memory.setting().batch,
                                             memory.setting().batch == 1 ? "" : "s")};
  for (const std::int64_t p : parts) {
    columns.push_back(memory.of_part(geometry, p));
    heads.push_back(fmt::format("part {}, MB", p));
  }
  TextTable table(heads, parts.size() == 1 ? "<>" : "<>>");
  const auto row = [&](const char* name, const auto& bytes_of) {
    std::vector<std::string> cells{name};
    for (const PartMemory& column : columns)
      cells.push_back(fmt::format("{:.1f}", 1e-6 * static_cast<double>(bytes_of(column))));
    table.add(cells);
  };
  for (const MemoryTerm& term : kMemoryTerms)
    row(term.name, [&](const PartMemory& m) { return m.*term.bytes; });
  row("peak", [](const PartMemory& m) { return m.total(); });
  const std::string share = fmt::format("the largest share: {} of part {}\n",
                                        largest_share(columns.back()), parts.back());
  out << table << share;
  return fmt::format("\npeak memory of a process: {:.1f} MB; {}",
                     1e-6 * static_cast<double>(columns.back().total()), share);
}

// Prints the memory with recomputation of the part that needs most: the alternative of --recompute
// auto.
void print_recomputed(std::ostream& out, MemoryForecast& memory, const ModelGeometry& geometry) {
  memory.setting().use = MemoryUse::kRecomputed;
  const PartMemory peak = memory.of_part(geometry, memory.largest(geometry));
  out << fmt::format(
      "recomputed, the peak is {:.1f} MB: --recompute auto does so where memory is short; give "
      "--machine to see where\n",
      1e-6 * static_cast<double>(peak.total()));
}

void print_thread_shares(const Model& model, const ModelGeometry& geometry, std::int64_t part,
                         int threads) {
  TextTable table({fmt::format("{} threads", threads), "loop", "units", "busiest / mean"}, "<<>>");
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const LayerPlacement& place = geometry.layers()[l];
    const Box& dst = place.boxes[static_cast<std::size_t>(part)].dst_produced;
    for (const ThreadShare& s :
         model.layers()[l].layer->thread_shares(place.src_shapes, dst, threads))
      table.add({place.name, s.loop, fmt::format("{}", s.units), fmt::format("{:.2f}", s.busiest)});
  }
  std::cout << '\n' << table;
}

/// The network as JSON: extents as channels, depth, height, width.
nlohmann::ordered_json network_document(const Model& model, const ModelGeometry& geometry) {
  const auto extents = [](const Shape& s) { return std::array{s.c, s.d, s.h, s.w}; };
  std::vector<std::int64_t> parameters(model.layers().size());
  for (const ParameterPlacement& each : geometry.parameters())
    if (each.geometry.moving_average == 0) parameters[each.layer] += each.geometry.volume();
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (std::size_t l = 0; l < parameters.size(); ++l)
    layers.push_back({{"name", model.layers()[l].name},
                      {"kernel", model.layers()[l].layer->kernel_name()},
                      {"output", extents(geometry.tensors()[l + 1].shape)},
                      {"parameters", parameters[l]}});
  return {{"input", extents(model.input())},
          {"parameters", geometry.parameter_count()},
          {"layers", std::move(layers)}};
}

/// Throws UsageError if there would be more ranks than MPI can number.
MeshShape planned_mesh(const Options& options) {
  const MeshShape mesh{options.get<std::int64_t>("replicas"), options.get<PartGrid>("parts")};
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (mesh.replicas > kMost / mesh.parts.count())
    throw UsageError(fmt::format("--replicas {} of {} parts each are more than {} ranks",
                                 mesh.replicas, mesh.parts.count(), kMost),
                     "plan fewer replicas");
  return mesh;
}

}  // namespace

int run_plan(int argc, char** argv) {
  Options given = plan_options();
  given.parse(argc, argv);
  if (given.help_wanted()) {
    std::cout << given.help();
    return kExitDone;
  }
  print_notes(std::cerr, given);
  for (const char* const output : {"json", "picture", "platform"}) check_output(given, output);
  if (const std::string padding = describe_padding(given); !padding.empty())
    std::cout << padding << "\n\n";
  const Options options = with_padded_input(given);
  const Model model = make_model(options, planned_precision(options));
  if (wants_machine(options)) {
    plan_on_machine(std::cout, options, model,
                    find_jobscripts(std::filesystem::read_symlink("/proc/self/exe")));
    return kExitDone;
  }
  const ModelGeometry geometry = model.geometry(options.get<PartGrid>("parts"));
  const GeometryTable table(geometry, flops_of_layers(model, geometry));
  auto part = options.get<std::int64_t>("part");
  if (part < 0) part = table.busiest_part();
  std::ostringstream boxes;  // fails for absurd sizes, before their memory is counted
  table.print(boxes, part);
  MemoryForecast memory(options);
  memory.setting().mesh = planned_mesh(options);
  memory.setting().batch = options.get<std::int64_t>("local-batch");
  memory.setting().threads = narrow<int>(options.get<std::int64_t>("threads"));
  const std::string peak = print_memory(std::cout, memory, geometry, part);
  if (!memory_use(options)) print_recomputed(std::cout, memory, geometry);
  std::cout << '\n' << boxes.str();
  if (const auto threads = options.get<std::int64_t>("threads"); threads > 0)
    print_thread_shares(model, geometry, part, narrow<int>(threads));
  std::cout << peak;  // again at the end, where a terminal shows it
  if (const auto file = options.get<std::string>("json"); !file.empty())
    write_file_atomically(file, network_document(model, geometry).dump(2) + "\n");
  if (const auto file = options.get<std::string>("picture"); !file.empty())
    write_file_atomically(file, draw_picture(geometry, planned_mesh(options), part));
  return kExitDone;
}

}  // namespace halomesh
