// SPDX-License-Identifier: Apache-2.0
// CosmoFlow: see cosmoflow.hpp.
#include "models/cosmoflow.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "error.hpp"
#include "models/network.hpp"
#include "src/nn/kernels/convolution_block_options.hpp"
#include "src/nn/kernels/isa_kernels.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/layers/global_average.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {
namespace {

void check_sizes(const CosmoFlowOptions& o) {
  const auto refuse_below_1 = [](const char* option, std::int64_t value) {
    if (value < 1)
      throw UsageError(fmt::format("--{} must be at least 1 (got {})", option, value),
                       "give at least 1");
  };
  refuse_below_1("kernel", o.kernel);
  refuse_below_1("filters", o.filters);
  refuse_below_1("conv-layers", o.conv_layers);
  refuse_below_1("targets", o.targets);
  for (const std::int64_t outputs : o.fc) refuse_below_1("fc", outputs);
  if (o.fc.size() > 64)
    throw UsageError(fmt::format("--fc lists {} layers", o.fc.size()), "give at most 64");
  // Beyond this the number of channels would overflow the libraries' 32-bit counts.
  if (o.conv_layers > 16 || o.filters << (o.conv_layers - 1) > 1 << 20)
    throw UsageError(fmt::format("--filters {} doubled by each of {} convolutions is too wide",
                                 o.filters, o.conv_layers),
                     "use at most 16 layers, and at most 1048576 filters in the last");
}

void check_input(const CosmoFlowOptions& o) {
  const std::int64_t smallest = std::min({o.input.d, o.input.h, o.input.w});
  if (o.input.c < 1 || smallest < 1)
    throw UsageError(fmt::format("--input {} has no elements", o.input),
                     "give extents of at least 1, e.g. --input 128x128x128x4");
  std::int64_t layers = 0;
  while (smallest >> (layers + 1) > 0) ++layers;
  if (o.conv_layers > layers)
    throw UsageError(
        fmt::format("--input {} is too small for {} convolution layers: each halves its extents",
                    o.input, o.conv_layers),
        layers > 0 ? fmt::format("use --conv-layers {} or less, or extents of {} or more", layers,
                                 std::int64_t{1} << o.conv_layers)
                   : "use extents of 2 or more");
  const std::int64_t largest = std::max({o.input.d, o.input.h, o.input.w});
  if (o.batch_norm == 1 && largest >> o.conv_layers == 1)
    throw UsageError(
        fmt::format("--input {} leaves one voxel after {} convolution layers, and a single value "
                    "cannot be normalized",
                    o.input, o.conv_layers),
        fmt::format("use --batch-norm of 2 or more, an extent of {} or more{}",
                    std::int64_t{2} << o.conv_layers,
                    o.conv_layers > 1 ? ", or fewer --conv-layers" : ""));
}

void check_factors(const CosmoFlowOptions& o) {
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw UsageError(fmt::format("--dropout {:g} is out of range", o.dropout),
                     "give 0 <= P < 1; 0 turns dropout off");
  if (!(o.leaky_slope >= 0 && std::isfinite(o.leaky_slope)))
    throw UsageError(fmt::format("the leaky ReLU has slope {:g}", o.leaky_slope),
                     "give a finite slope of at least 0");
}

void check_types(const CosmoFlowOptions& o) {
  if (o.precision == DataType::kInt16)
    throw UsageError("--precision int16 cannot be used for training", "give fp32 or bf16");
  if (o.input_type == DataType::kBfloat16)
    throw UsageError("sample files cannot hold bf16", "give int16 counts or fp32");
}

// Rejects layers that no machine could hold, long before a 64-bit count of their elements or
// operations could overflow. Counts in double, which cannot overflow.
void check_volumes(const CosmoFlowOptions& o) {
  constexpr double kMostElements = 0x1p40, kMostOperations = 0x1p58;
  const auto check = [](const std::string& layer, const char* what, double count, double most) {
    if (count > most)
      throw UsageError(fmt::format("{} would have {:g} {}; at most {:g} are supported", layer,
                                   count, what, most),
                       "use a smaller --input, --kernel, --filters or --fc");
  };
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  double voxels = real(o.input.d) * real(o.input.h) * real(o.input.w), channels = real(o.input.c);
  check("the input", "elements", voxels * channels, kMostElements);
  for (std::int64_t l = 0; l < o.conv_layers; ++l) {
    const std::string name = "conv" + std::to_string(l + 1);
    const double filters = std::ldexp(real(o.filters), static_cast<int>(l));
    const double weights = std::pow(real(o.kernel), 3) * channels * filters;
    check(name, "weights", weights, kMostElements);
    check(name, "outputs", voxels * filters, kMostElements);
    check(name, "multiply-adds", weights * voxels, kMostOperations);
    voxels /= 8;
    channels = filters;
  }
  std::vector<std::int64_t> outputs = o.fc;
  outputs.push_back(o.targets);
  double inputs = o.average ? channels : voxels * channels;
  for (std::size_t l = 0; l < outputs.size(); ++l) {
    check("fc" + std::to_string(l + 1), "weights", inputs * real(outputs[l]), kMostElements);
    inputs = real(outputs[l]);
  }
}

bool is_reproducible(const CosmoFlowOptions& o) {
  return o.kernels == GradientKernels::kReproducible;
}

// Refuses settings without reproducible kernels, by the options' names.
void check_reproducible(const CosmoFlowOptions& o) {
  const auto refuse = [](const std::string& what, const std::string& hint) {
    throw UsageError("--reproducible has no kernels for " + what, hint);
  };
  if (o.precision != DataType::kFloat32) refuse("--precision bf16", "use --precision fp32");
  if (o.average) refuse("--average on", "use --average off");
  if (o.batch_norm > 0) refuse("--batch-norm", "use --batch-norm 0");
  if (o.kernel != 2 && o.kernel != 3)
    refuse(fmt::format("--kernel {}", o.kernel), "use --kernel 2 or 3");
  if (o.filters % kChannelVector != 0)
    refuse(fmt::format("--filters {}", o.filters),
           fmt::format("use a multiple of {}", kChannelVector));
  if (o.input.c > 8) refuse(fmt::format("--input {}", o.input), "use at most 8 channels");
  for (const std::int64_t extent : o.input.spatial())
    if (extent % (std::int64_t{1} << o.conv_layers) != 0)
      refuse(fmt::format("--input {}", o.input),
             fmt::format("use extents that are multiples of {}, which {} layers halve evenly, or "
                         "fewer --conv-layers",
                         std::int64_t{1} << o.conv_layers, o.conv_layers));
}

// Convolution number `number`, from 1 on.
std::unique_ptr<Layer> make_block(const CosmoFlowOptions& o, std::int64_t number) {
  ConvolutionBlockOptions block;
  block.filters = o.filters << (number - 1);
  block.window = WindowOptions::cube(o.kernel, 1, PaddingKind::kSame);
  block.slope = static_cast<float>(o.leaky_slope);
  block.compute = o.precision;
  block.kernels = o.kernels;
  if (number < o.conv_layers) block.dst = o.precision;
  return isa_kernels().make_convolution_block(block);
}

// Normalizes the last layer's output over `samples` samples of the global batch.
void add_batch_norm(Model& model, const std::string& number, std::int64_t samples, DataType type) {
  const std::size_t x = model.layers().size();
  model.add("moments" + number, std::make_unique<Moments>(0, type));
  const std::size_t moments = model.add("mean" + number, std::make_unique<SampleAverage>(samples));
  model.add("norm" + number, std::make_unique<Normalize>(1e-5F, type, samples), {x, moments});
}

GradientKernels kernels_named(const std::string& name) {
  if (name == "sparse") return GradientKernels::kSparse;
  if (name == "winograd") return GradientKernels::kWinograd;
  return name == "dense" ? GradientKernels::kDense : GradientKernels::kAuto;
}

std::vector<NetworkOption> cosmoflow_options() {
  using enum SettingRole;
  const CosmoFlowOptions d;
  return {
      {.name = "kernel",
       .placeholder = "K",
       .fallback = d.kernel,
       .help = "kernel size along each axis; MLPerf HPC v0.7: 2, v1.0: 3",
       .at_least = 1,
       .at_most = 1024},
      {.name = "filters",
       .placeholder = "F",
       .fallback = d.filters,
       .help = "filters of conv1; each further convolution doubles them",
       .at_least = 1},
      {.name = "conv-layers",
       .placeholder = "L",
       .fallback = d.conv_layers,
       .help = "number of convolution blocks",
       .at_least = 1},
      {.name = "average",
       .placeholder = "on|off",
       .fallback = d.average,
       .help = "average the features of the last convolution over space, so that the dense "
               "layers do not know places; not in the published network",
       .stored_at_default = false},
      {.name = "batch-norm",
       .placeholder = "N",
       .fallback = d.batch_norm,
       .help = "normalize each feature after each convolution over N consecutive samples "
               "of the global batch; 0: off, as published",
       .at_least = 0,
       .stored_at_default = false},
      {.name = "fc",
       .placeholder = "N,N",
       .fallback = d.fc,
       .help = "sizes of the hidden dense layers",
       .at_least = 1},
      {.name = "targets",
       .placeholder = "T",
       .fallback = d.targets,
       .help = "number of values to predict, or of classes or labels with --loss ce or bce",
       .at_least = 1},
      {.name = "dropout",
       .placeholder = "P",
       .fallback = d.dropout,
       .help = "dropout probability after each hidden dense layer",
       .role = kTraining,
       .at_least = 0,
       .below = 1},
      {.name = kValuesOption,
       .fallback = std::string("counts"),
       .help = "what samples hold: counts, of which the network reads log(1+x), or fields of other "
               "numbers, which it reads as they are; train sets it as the data are",
       .choices = {"counts", "fields"},
       .stored_at_default = false},
      {.name = kStandardizeOption,
       .placeholder = "on|off",
       .fallback = std::string("off"),
       .help = "subtract from log(1+x) the mean of its channel over training samples, and "
               "divide by the standard deviation; a checkpoint keeps the numbers",
       .implicit = "on",
       .stored_at_default = false},
      {.name = kScaleTargetsOption,
       .placeholder = "on|off",
       .fallback = std::string("off"),
       .help =
           "map the range of each target over the training samples to that of the outputs, which "
           "a tanh keeps between -1.2 and 1.2; a checkpoint keeps the map, so that scores and "
           "predictions are in the units of the targets",
       .implicit = "on",
       .stored_at_default = false},
      {.name = "loss",
       .fallback = std::string("mse"),
       .help = "what is minimized: " + loss_summaries(DataType::kFloat32),
       .role = kTraining,
       .choices = loss_names(DataType::kFloat32),
       .stored_at_default = false},
      {.name = "kernels",
       .fallback = std::string("auto"),
       .help = "convolutions: sparse: gradients from the maxima of the pooling windows alone; "
               "winograd: forward by Winograd's minimal filtering; dense: only oneDNN's kernels; "
               "auto: whichever of these cost less",
       .role = kComputing,
       .choices = {"auto", "sparse", "winograd", "dense"}}};
}

bool classifies(const NetworkSettings& settings) {
  const auto& loss = settings.get<std::string>("loss");
  return loss == "ce" || loss == "bce";
}

Model make_from_settings(const NetworkSettings& settings) {
  CosmoFlowOptions o;
  o.input = settings.input;
  o.kernel = settings.get<std::int64_t>("kernel");
  o.filters = settings.get<std::int64_t>("filters");
  o.conv_layers = settings.get<std::int64_t>("conv-layers");
  o.average = settings.get<bool>("average");
  o.batch_norm = settings.get<std::int64_t>("batch-norm");
  o.fc = settings.get<std::vector<std::int64_t>>("fc");
  o.targets = settings.get<std::int64_t>("targets");
  o.classifies = classifies(settings);
  o.dropout = settings.get<double>("dropout");
  o.cuts = settings.cuts;
  o.kernels = settings.reproducible ? GradientKernels::kReproducible
                                    : kernels_named(settings.get<std::string>("kernels"));
  o.precision = settings.precision;
  const bool counts = settings.get<std::string>(kValuesOption) == "counts";
  o.input_type = counts ? DataType::kInt16 : DataType::kFloat32;
  return make_cosmoflow(o);
}

Network cosmoflow() {
  return {.name = "cosmoflow",
          .summary =
              "predicts numbers from a volume, such as parameters of a universe from counts of its "
              "matter",
          .input = CosmoFlowOptions().input,
          .input_type = DataType::kInt16,
          .options = cosmoflow_options(),
          .make = make_from_settings,
          .make_loss =
              [](const NetworkSettings& settings, const Shape& output) {
                return make_loss(settings.get<std::string>("loss"), output);
              },
          .output_names =
              [](const NetworkSettings& settings) {
                if (classifies(settings)) return std::vector<std::string>();
                return std::vector<std::string>{"omega_m", "sigma_8", "n_s", "h0"};
              }};
}

const Registered<Network> kCosmoFlow(cosmoflow);

}  // namespace

Model make_cosmoflow(const CosmoFlowOptions& o) {
  check_sizes(o);
  check_input(o);
  check_factors(o);
  check_types(o);
  check_volumes(o);
  if (is_reproducible(o)) check_reproducible(o);
  const auto slope = static_cast<float>(o.leaky_slope);
  Model model(o.input, o.input_type);
  model.set_cuts(is_reproducible(o) ? CutSetting{CutSetting::Kind::kCells} : o.cuts);
  for (std::int64_t i = 1; i <= o.conv_layers; ++i) {
    model.add("conv" + std::to_string(i), make_block(o, i));
    if (o.batch_norm > 0)
      add_batch_norm(model, std::to_string(i), o.batch_norm,
                     i < o.conv_layers ? o.precision : DataType::kFloat32);
  }
  if (o.average) model.add("average", std::make_unique<GlobalAverage>());
  std::int64_t dense = 0;
  for (const std::int64_t outputs : o.fc) {
    const std::string number = std::to_string(++dense);
    model.add("fc" + number, std::make_unique<Dense>(outputs, is_reproducible(o)));
    model.add("act_fc" + number, std::make_unique<Elementwise>(ElementFunction::leaky_relu(slope)));
    if (o.dropout > 0) model.add("dropout" + number, std::make_unique<Dropout>(o.dropout));
  }
  model.add("fc" + std::to_string(dense + 1),
            std::make_unique<Dense>(o.targets, is_reproducible(o)));
  if (o.classifies) return model;
  model.add("tanh", std::make_unique<Elementwise>(
                        ElementFunction::scaled_tanh(static_cast<float>(o.output_scale))));
  return model;
}

}  // namespace halomesh
