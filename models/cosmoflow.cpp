// CosmoFlow: see cosmoflow.hpp.
#include "models/cosmoflow.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "error.hpp"
#include "src/nn/layers/convolution_block.hpp"
#include "src/nn/layers/dense.hpp"
#include "src/nn/layers/dropout.hpp"
#include "src/nn/layers/leaky_relu.hpp"
#include "src/nn/layers/scaled_tanh.hpp"

namespace halomesh {
namespace {

void check_sizes(const CosmoFlowOptions& o) {
  const auto refuse_below_1 = [](const char* option, std::int64_t value) {
    if (value < 1)
      throw UsageError(cat("--", option, ' ', value, " makes no network"), "give at least 1");
  };
  refuse_below_1("kernel", o.kernel);
  refuse_below_1("filters", o.filters);
  refuse_below_1("conv-layers", o.conv_layers);
  refuse_below_1("targets", o.targets);
  for (const std::int64_t outputs : o.fc) refuse_below_1("fc", outputs);
  // Beyond this the number of channels would not fit what libraries count with.
  if (o.conv_layers > 16 || o.filters << (o.conv_layers - 1) > 1 << 20)
    throw UsageError(cat("--filters ", o.filters, " doubled by each of ", o.conv_layers,
                         " convolutions is too wide"),
                     "the last convolution may have 1048576 filters, and 16 layers are the most");
}

void check_input(const CosmoFlowOptions& o) {
  const std::int64_t smallest = std::min({o.input.d, o.input.h, o.input.w});
  if (o.input.c < 1 || smallest < 1)
    throw UsageError(cat("--input ", o.input, " has no elements"),
                     "give extents of at least 1, e.g. --input 128x128x128x4");
  std::int64_t layers = 0;
  while (smallest >> (layers + 1) > 0) ++layers;
  if (o.conv_layers > layers)
    throw UsageError(cat("--input ", o.input, " is too small for ", o.conv_layers,
                         " convolution layers: each halves its extents"),
                     layers > 0 ? cat("use --conv-layers ", layers, " or less, or extents of ",
                                      std::int64_t{1} << o.conv_layers, " or more")
                                : "use extents of 2 or more");
}

void check_factors(const CosmoFlowOptions& o) {
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw UsageError(cat("--dropout ", o.dropout, " is not a probability below 1"),
                     "give 0 <= P < 1; 0 means no dropout");
  if (!(o.leaky_slope >= 0 && std::isfinite(o.leaky_slope)))
    throw UsageError(cat("a leaky ReLU of slope ", o.leaky_slope, " cannot follow its pooling"),
                     "give a slope of at least 0");
}

void check_types(const CosmoFlowOptions& o) {
  if (o.precision == DataType::kInt16)
    throw UsageError("--precision int16 is no precision to train in", "give fp32 or bf16");
  if (o.input_type == DataType::kBfloat16)
    throw UsageError("samples of bf16 are none that files hold", "give counts or fp32");
}

// Convolution number `number`, from 1 on.
std::unique_ptr<Layer> make_block(const CosmoFlowOptions& o, std::int64_t number) {
  ConvolutionBlockOptions block;
  block.filters = o.filters << (number - 1);
  block.window = WindowOptions::cube(o.kernel, 1, PaddingKind::kSame);
  block.slope = static_cast<float>(o.leaky_slope);
  block.compute = o.precision;
  block.channel_cuts = o.channel_cuts;
  if (number < o.conv_layers) block.dst = o.precision;
  return std::make_unique<ConvolutionBlock>(block);
}

}  // namespace

Model make_cosmoflow(const CosmoFlowOptions& o) {
  check_sizes(o);
  check_input(o);
  check_factors(o);
  check_types(o);
  const auto slope = static_cast<float>(o.leaky_slope);
  Model model(o.input, o.input_type);
  for (std::int64_t i = 1; i <= o.conv_layers; ++i)
    model.add("conv" + std::to_string(i), make_block(o, i));
  std::int64_t dense = 0;
  for (const std::int64_t outputs : o.fc) {
    const std::string number = std::to_string(++dense);
    model.add("fc" + number, std::make_unique<Dense>(outputs));
    model.add("act_fc" + number, std::make_unique<LeakyRelu>(slope));
    if (o.dropout > 0) model.add("dropout" + number, std::make_unique<Dropout>(o.dropout));
  }
  model.add("fc" + std::to_string(dense + 1), std::make_unique<Dense>(o.targets));
  model.add("tanh", std::make_unique<ScaledTanh>(static_cast<float>(o.output_scale)));
  return model;
}

}  // namespace halomesh
