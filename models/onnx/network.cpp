// SPDX-License-Identifier: Apache-2.0
// Networks from ONNX files among the program's networks: see imported.hpp.
#include "models/network.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "error.hpp"
#include "models/onnx/imported.hpp"
#include "src/nn/losses/registry.hpp"
#include "src/nn/parameters.hpp"

namespace halomesh {
namespace {

constexpr const char* kAutomaticLoss = "auto";

const std::string& source_of(const NetworkSettings& settings) {
  const auto& source = settings.get<std::string>("network");
  if (source.empty())
    throw UsageError("--model onnx without a file", "give --network FILE, an ONNX file");
  return source;
}

bool is_for_classes(const std::string& loss) {
  const auto names = loss_names(DataType::kUint8);
  return std::find(names.begin(), names.end(), loss) != names.end();
}

/// The weights of --output-weights: none for "auto", absent for "off".
std::optional<std::vector<double>> output_weights(const std::string& text) {
  if (text == "off") return {};
  std::vector<double> weights;
  for (std::size_t at = 0; text != "auto" && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    double weight = -1;
    const auto [last, error] = std::from_chars(text.data() + at, text.data() + end, weight);
    if (error != std::errc() || last != text.data() + end || !(weight >= 0 && weight <= 1e6))
      throw UsageError(fmt::format("--output-weights {}: no weights", text),
                       "give auto, off, or a number of at least 0 for each output, such as 1,0.5");
    weights.push_back(weight);
    at = end + 1;
  }
  return weights;
}

ImportedNetwork imported(const NetworkSettings& settings) {
  if (settings.reproducible)
    throw UsageError("--reproducible has no kernels for the network onnx",
                     "train it without --reproducible");
  const auto& loss = settings.get<std::string>("loss");
  ImportSettings import;
  import.input = settings.input;
  import.precision = settings.precision;
  import.batch_norm = settings.get<std::int64_t>("batch-norm");
  import.dropout = settings.get<double>("dropout");
  import.ends_in_scores = loss == kAutomaticLoss || is_for_classes(loss);
  import.ends_in_softmax = loss == "ce";
  import.ends_in_sigmoid = loss == "bce";
  import.output = settings.get<std::string>("output");
  if (!settings.predicts && import.ends_in_scores)
    import.weights = output_weights(settings.get<std::string>("output-weights"));
  return import_onnx(source_of(settings), import);
}

Model make_onnx(const NetworkSettings& settings) {
  Model model = imported(settings).model;
  model.set_cuts(settings.cuts);
  return model;
}

std::unique_ptr<Loss> make_onnx_loss(const NetworkSettings& settings, const Shape& output) {
  std::string loss = settings.get<std::string>("loss");
  if (loss == kAutomaticLoss) loss = output.spatial() == Spatial{1, 1, 1} ? "mse" : "dice+ce";
  const std::vector<OutputHead> heads = imported(settings).heads;
  const auto make = [&](const Shape& shape) { return make_loss(loss, shape); };
  if (heads.size() > 1) return std::make_unique<HeadsLoss>(output, heads, make);
  return make(output);
}

void start_onnx(const NetworkSettings& settings, Parameters& parameters) {
  if (settings.get<std::string>("initial") == "random") return;
  const std::vector<ImportedParameter> stored = imported(settings).parameters;
  const auto values = onnx_values(source_of(settings), stored);
  for (std::size_t i = 0; i < stored.size(); ++i)
    parameters.assign(stored[i].layer, stored[i].number, values[i]);
}

std::vector<NetworkOption> onnx_options() {
  using enum SettingRole;
  std::vector<std::string> losses = loss_names(DataType::kFloat32);
  for (std::string& name : loss_names(DataType::kUint8))
    if (name != "ce") losses.push_back(std::move(name));  // a loss of samples and of voxels
  losses.insert(losses.begin(), kAutomaticLoss);
  return {
      {.name = "network",
       .placeholder = "FILE",
       .fallback = std::string(),
       .help = "ONNX file of the network; checkpoints keep it, without its weights",
       .stored = embedded_graph},
      {.name = "output",
       .placeholder = "NAME",
       .fallback = std::string(),
       .help = "the output that is computed where the file has several; by default the first"},
      {.name = "output-weights",
       .placeholder = "W,W,...",
       .fallback = std::string("auto"),
       .help = "weights of the losses of outputs that classify voxels on several levels; auto: "
               "halved per level, the lowest 0; off: the first output alone"},
      {.name = "batch-norm",
       .placeholder = "N",
       .fallback = std::int64_t{1},
       .help = "batch normalizations take N consecutive samples of the global batch; by "
               "default, training takes all samples of a pass",
       .at_least = 1},
      {.name = "initial",
       .fallback = std::string("file"),
       .help = "initial parameters: those of the file, or random as PyTorch draws them",
       .role = kComputing,
       .choices = {"file", "random"}},
      {.name = "dropout",
       .placeholder = "P",
       .fallback = -1.0,
       .help = "probability of all dropouts; -1: those in the file",
       .role = kTraining,
       .at_least = -1,
       .below = 1},
      {.name = "loss",
       .fallback = std::string(kAutomaticLoss),
       .help = "what is minimized; auto: mse for numbers, dice+ce for voxels; ce also for a class, "
               "bce for labels of 0 or 1 for each sample",
       .role = kTraining,
       .choices = std::move(losses)}};
}

Network onnx_network() {
  return {.name = "onnx",
          .summary = "any 3-D network from its ONNX file",
          .input = {1, 1, 1, 1},
          .input_type = DataType::kFloat32,
          .options = onnx_options(),
          .make = make_onnx,
          .make_loss = make_onnx_loss,
          .own_input =
              [](const NetworkSettings& settings) {
                return import_onnx(source_of(settings)).model.input();
              },
          .norms_take_batch = true,
          .start = start_onnx};
}

const Registered<Network> kOnnx(onnx_network);

}  // namespace

std::vector<ImportedParameter> imported_parameters(const NetworkSettings& settings) {
  return imported(settings).parameters;
}
std::vector<std::string> imported_outputs(const NetworkSettings& settings) {
  return imported(settings).computed;
}

}  // namespace halomesh
