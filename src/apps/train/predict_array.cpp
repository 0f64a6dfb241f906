// SPDX-License-Identifier: Apache-2.0
// A network's outputs for an array: see predict_array.hpp.
#include "src/apps/train/predict_array.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "counted.hpp"
#include "models/onnx/imported.hpp"
#include "printable.hpp"
#include "runtime/mpi/process_mesh.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/step/executor.hpp"
#include "runtime/train/checkpoint.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/train/checkpoint_evaluation.hpp"
#include "src/apps/train/network_on_mesh.hpp"
#include "src/apps/train/npy_file.hpp"

namespace halomesh {
namespace {

using NetworkTexts = std::map<std::string, std::string>;

/// Writes a network's outputs, which rank 0 collects, as one array.
void write_outputs(const Comm& world, const std::filesystem::path& file, std::int64_t samples,
                   const Shape& shape, const std::vector<std::string>& blocks) {
  if (world.rank() != 0) return;
  std::string bytes = npy_header(samples, shape);
  const std::size_t begin = bytes.size();
  bytes.resize(begin + static_cast<std::size_t>(samples * shape.volume()) * sizeof(float));
  for (const std::string& block : blocks)
    for (std::size_t at = 0; at < block.size();) {
      Box box;
      std::int64_t sample = 0;
      std::memcpy(&sample, block.data() + at, sizeof(sample));
      std::memcpy(&box, block.data() + at + sizeof(sample), sizeof(box));
      at += sizeof(sample) + sizeof(box);
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
          for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
            for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c, at += sizeof(float)) {
              const std::int64_t to =
                  (((sample * shape.c + c) * shape.d + d) * shape.h + h) * shape.w + w;
              std::memcpy(bytes.data() + begin + static_cast<std::size_t>(to) * sizeof(float),
                          block.data() + at, sizeof(float));
            }
    }
  write_file_atomically(file, bytes);
}

/// Appends this rank's block of each sample of an output.
void append_blocks(std::int64_t first, ConstView output, std::string& blocks) {
  if (output.data == nullptr || output.span.empty()) return;
  for (std::int64_t n = 0; n < output.batch; ++n) {
    const std::int64_t sample = first + n;
    const auto append = [&](const void* data, std::size_t bytes) {
      blocks.append(static_cast<const char*>(data), bytes);
    };
    append(&sample, sizeof(sample));
    append(&output.span, sizeof(output.span));
    append(output.data + n * output.sample_volume(),
           static_cast<std::size_t>(output.sample_volume()) * sizeof(float));
  }
}

/// Reads samples of a network's input type: counts are rounded.
void read_samples(const NpyFile& data, std::int64_t first, AnyView input) {
  if (input.type == DataType::kFloat32) return data.read(first, input.as<float>());
  const Tensor values(input.span, input.batch);
  data.read(first, values.view());
  const auto counts = input.as<std::int16_t>();
  for (std::int64_t i = 0; i < counts.batch * counts.sample_volume(); ++i) {
    const float value = values.view().data[i];
    require(value >= 0 && value <= 32767, text("a count of {:g} in --data", value),
            "counts are from 0 to 32767");
    counts.data[i] = static_cast<std::int16_t>(std::lround(value));
  }
}

/// Computes one output of the network for all samples and writes it.
void predict_output(const Comm& world, const Options& options, const NetworkTexts& texts,
                    const NpyFile& data, const std::filesystem::path& out) {
  const bool training = options.get<std::string>("mode") == "train";
  NetworkSpec spec = network_spec(options_of_settings(texts, "--network"),
                                  precision_named(options.get<std::string>("precision")));
  spec.settings.predicts = true;
  const auto parts = options.get<PartGrid>("parts");
  const ProcessMesh mesh(world, make_mesh(world.size(), parts));
  Model model = make_model(spec);
  const ModelGeometry geometry = model.geometry(parts);
  Parameters parameters(geometry, mesh.part(), {});
  if (const auto given = options.get<std::string>("checkpoint"); !given.empty())
    with_newest_checkpoint(world, given, [&](const std::string& file) {
      return load_checkpoint(mesh, geometry, parameters, file, LoadWhat::kNeededParameters);
    });
  else
    spec.initialize(parameters, 0);
  const std::int64_t batch = training ? data.samples() : 1;
  Executor executor(mesh.group(), model, geometry, parameters, batch, training);
  executor.load_parameters();
  const Tensor input(executor.input_span(), batch, model.input_type());
  std::string blocks;
  const std::int64_t replicas = training ? 1 : mesh.shape().replicas;
  if (mesh.replica() < replicas)
    for (std::int64_t first = mesh.replica() * batch; first < data.samples();
         first += replicas * batch) {
      read_samples(data, first, input.any_view());
      Pass pass;
      pass.training = training;
      pass.global_batch = batch;
      executor.forward(pass, input.any_view());
      append_blocks(first, executor.output(), blocks);
    }
  write_outputs(world, out, data.samples(), geometry.tensors().back().shape, world.gather(blocks));
}

/// The settings of the network as a checkpoint has them, for samples of these extents.
NetworkTexts network_texts(const Comm& world, const Options& options, const NpyFile& data) {
  NetworkTexts texts;
  if (const auto network = options.get<std::string>("network"); !network.empty())
    texts = {{"model", "onnx"}, {"network", network}};
  else
    texts = model_settings(checkpoint_model_options(world, options.get<std::string>("checkpoint")));
  texts["input"] = fmt::format("{}", data.shape());
  if (texts["model"] != "onnx") return texts;
  texts["loss"] = "mse";  // leaves a softmax or sigmoid at the end in place
  texts["dropout"] = "0";
  if (options.get<std::string>("mode") == "train")
    texts["batch-norm"] = fmt::format("{}", data.samples());
  return texts;
}

/// The outputs that a checkpoint's network was trained for.
std::vector<std::string> checkpoint_outputs(const Comm& world, const Options& options) {
  const auto given = options.get<std::string>("checkpoint");
  return imported_outputs(network_spec(checkpoint_model_options(world, given)).settings);
}

}  // namespace

bool reads_array(const Options& options) {
  return !options.get<std::string>("network").empty() ||
         options.get<std::string>("out").ends_with(".npy");
}

int predict_array(const Comm& world, const Options& options) {
  check_output_file(world, options, "out");
  const std::filesystem::path out = options.get<std::string>("out");
  if (out.extension() != ".npy")
    throw UsageError(fmt::format("--out {} is no .npy file", out.string()),
                     "end the name in .npy, as that of --data");
  const NpyFile data(options.get<std::string>("data"));
  NetworkTexts texts = network_texts(world, options, data);
  std::vector<std::string> outputs{{}};
  if (texts["model"] == "onnx")
    outputs = options.get<std::string>("network").empty() ? checkpoint_outputs(world, options)
                                                          : import_onnx(texts["network"]).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].empty()) texts["output"] = outputs[i];
    std::filesystem::path file = out;
    if (i > 0) file.replace_extension(fmt::format(".{}.npy", i));
    predict_output(world, options, texts, data, file);
    if (world.rank() == 0)
      std::cout << counted(data.samples(), "sample") << " of the output "
                << printable(outputs[i].empty() ? "" : outputs[i] + ' ') << "in "
                << printable(file.string()) << std::endl;
  }
  return kExitDone;
}

}  // namespace halomesh
