// SPDX-License-Identifier: Apache-2.0
// The command `export onnx`: the network of a checkpoint as an ONNX file with its parameters.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/onnx/imported.hpp"
#include "models/onnx/writer.hpp"
#include "printable.hpp"
#include "runtime/log/json_bytes.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/input_file.hpp"
#include "runtime/train/checkpoint.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/checkpoint_evaluation.hpp"
#include "src/apps/train/network_on_mesh.hpp"

namespace halomesh {
namespace {

/// The network of --checkpoint, or that of a file as it is.
NetworkSpec exported_network(const Comm& world, const Options& options) {
  const auto given = options.get<std::string>("checkpoint"),
             file = options.get<std::string>("network");
  if (given.empty() && file.empty())
    throw UsageError("--checkpoint is missing", "give it, or --network FILE");
  if (!file.empty())
    return network_spec(options_of_settings({{"model", "onnx"}, {"network", file}}, "--network"));
  return network_spec(checkpoint_model_options(world, given));
}

/// Refuses to replace the file that the network of a run came from: nothing else has the values of
/// its parameters before the training.
void keep_origin(const std::filesystem::path& checkpoint, const std::filesystem::path& out) {
  std::error_code none;
  std::filesystem::path run = std::filesystem::weakly_canonical(checkpoint, none);
  while (run.has_relative_path() && !std::filesystem::exists(run / "run.json", none))
    run = run.parent_path();
  if (!run.has_relative_path()) return;
  const auto record = parse_json(read_input_file(run / "run.json"));
  const std::string origin = record.is_object() && record.contains("options")
                                 ? record["options"].value("network", std::string())
                                 : "";
  if (std::filesystem::equivalent(origin, out, none))
    throw UsageError(fmt::format("--out {} is the file that the network of {} came from",
                                 out.string(), run.string()),
                     "give another path");
}

/// The file of a network: the one that it came from with these parameters, or a new one.
std::string exported_bytes(const NetworkSpec& spec, const Model& model, Parameters& parameters) {
  const auto values_of = [&](std::size_t layer, std::size_t number) -> std::span<const float> {
    return parameters.views(layer).at(number).values;
  };
  if (spec.network->name != "onnx") return onnx_of(model, values_of);
  const std::vector<ImportedParameter> stored = imported_parameters(spec.settings);
  std::vector<std::vector<float>> values;
  for (const ImportedParameter& parameter : stored)
    for (std::size_t l = 0; l < model.layers().size(); ++l)
      if (model.layers()[l].name == parameter.layer) {
        const std::span<const float> all = values_of(l, parameter.number);
        values.emplace_back(all.begin(), all.end());
      }
  return onnx_with_values(spec.settings.get<std::string>("network"), spec.settings.input, stored,
                          values);
}

int export_network(const Comm& world, const Options& options) {
  check_output_file(world, options, "out");
  keep_origin(options.get<std::string>("checkpoint"), options.get<std::string>("out"));
  const NetworkSpec spec = exported_network(world, options);
  const ProcessMesh mesh(world, make_mesh(world.size(), {1, 1, 1}));
  const Model model = make_model(spec);
  const ModelGeometry geometry = model.geometry({1, 1, 1});
  Parameters parameters(geometry, 0, {});
  if (const auto given = options.get<std::string>("checkpoint"); given.empty())
    spec.initialize(parameters, 0);
  else
    with_newest_checkpoint(world, given, [&](const std::string& file) {
      return load_checkpoint(mesh, geometry, parameters, file, LoadWhat::kParametersOnly);
    });
  if (world.rank() != 0) return kExitDone;
  const std::filesystem::path out = options.get<std::string>("out");
  write_file_atomically(out, exported_bytes(spec, model, parameters));
  std::cout << geometry.parameter_count() << " parameters in " << printable(out.string())
            << std::endl;
  return kExitDone;
}

}  // namespace

int run_export_onnx(int argc, char** argv) {
  Options options(
      "export onnx --checkpoint FILE --out FILE",
      "Writes the network of a checkpoint as an ONNX file, with its trained parameters; one that "
      "came from a\nfile has their names there. Of --network, writes the file in one piece, with a "
      "tensor for each parameter.",
      "halomesh export onnx --checkpoint run --out trained.onnx");
  options.group("Export")
      .add<std::string>("checkpoint", "FILE", "",
                        "checkpoint file, or the --out directory of a run for its latest")
      .add<std::string>("network", "FILE", "", "ONNX file to write again")
      .instead_of("checkpoint")
      .add_required<std::string>("out", "FILE", "file to write");
  return run_parallel(argc, argv, options,
                      [&](const Comm& world) { return export_network(world, options); });
}

}  // namespace halomesh
