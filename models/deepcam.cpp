// SPDX-License-Identifier: Apache-2.0
// DeepCAM: finds tropical cyclones and atmospheric rivers in images of the climate. DeepLabv3+ on a
// modified Xception with output stride 16, of MLPerf HPC: github.com/mlcommons/hpc, deepcam/src/
// deepCam/architecture/deeplab_xception.py; after Kurth et al., SC 2018 (arXiv:1810.01993) and Chen
// et al., ECCV 2018 (arXiv:1802.02611). 56,454,720 parameters in 301 tensors.
//
// Images have the shape {channels, rows, 1, columns}: rows are cut along d, where layers have
// chunks to compute while halos travel.
#include <algorithm>
#include <array>
#include <memory>

#include "error.hpp"
#include "models/network.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/add.hpp"
#include "src/nn/layers/affine.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/depthwise_convolution.hpp"
#include "src/nn/layers/elementwise.hpp"
#include "src/nn/layers/global_average.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "src/nn/layers/tile.hpp"
#include "src/nn/layers/transposed_convolution.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {

namespace {

using Kind = InitialValues::Kind;
constexpr float kBatchNormEpsilon = 1e-5F;  // PyTorch's default for batch norm
constexpr std::int64_t kDivisor = 16;       // the output stride
constexpr std::array kRates{6, 12, 18};     // dilations of the pyramid's convolutions
// The frequencies of the classes to the power -1/8: deepcam/src/deepCam/train.py.
constexpr std::array kClassWeights{1.001729912096556, 2.614611223975222, 1.716419747958960};

struct DeepCamOptions {
  Shape input;
  std::int64_t filters = 0, middle_blocks = 0, batch_norm = 0;

  explicit DeepCamOptions(const NetworkSettings& settings)
      : input(settings.input),
        filters(settings.get<std::int64_t>("filters")),
        middle_blocks(settings.get<std::int64_t>("middle-blocks")),
        batch_norm(settings.get<std::int64_t>("batch-norm")) {}

  /// The filters of a layer that has `published` filters where the first convolution has 32.
  std::int64_t scaled(std::int64_t published) const { return published * filters / 32; }
};

/// Rows and columns rounded down or up to a multiple of the output stride.
Spatial nearest_extents(const DeepCamOptions& o, bool up) {
  const auto nearest = [&](std::int64_t extent) {
    return std::max(kDivisor, (extent + (up ? kDivisor - 1 : 0)) / kDivisor * kDivisor);
  };
  return {nearest(o.input.d), o.input.h, nearest(o.input.w)};
}

void check(const DeepCamOptions& o, const NetworkSettings& settings) {
  if (settings.reproducible)
    throw UsageError("--reproducible has no kernels for the network deepcam",
                     "train it without --reproducible");
  const Shape& input = o.input;
  if (input.h != 1)
    throw UsageError(fmt::format("--input {}: the network deepcam is for images, with one plane "
                                 "along h",
                                 input),
                     "use --input ROWSx1xCOLUMNSxCHANNELS, e.g. 768x1x1152x16");
  if (input.d % kDivisor != 0 || input.w % kDivisor != 0 || input.d < 1 || input.w < 1) {
    const auto text_of = [&](bool up) {
      const Spatial extents = nearest_extents(o, up);
      return fmt::format("{}", Shape{input.c, extents[0], extents[1], extents[2]});
    };
    const std::string below = text_of(false), above = text_of(true);
    throw UsageError(
        fmt::format("--input {} cannot be halved 4 times, as deepcam does", input),
        fmt::format("use multiples of {} for rows and columns, e.g. --input {}{}{}; --pad "
                    "VALUE pads samples",
                    kDivisor, below, below == above ? "" : " or ", below == above ? "" : above));
  }
  if (o.batch_norm == 1 && input.d == kDivisor && input.w == kDivisor)
    throw UsageError(
        fmt::format("--input {} leaves one pixel on the coarsest level, and a single "
                    "value cannot be normalized",
                    input),
        fmt::format("use an extent of {} or more, or --batch-norm of 2 or more", 2 * kDivisor));
  const double pixels = static_cast<double>(input.d) * static_cast<double>(input.w);
  const double elements = pixels * std::max(static_cast<double>(o.scaled(256)) / 4, 3.0);
  if (elements > 0x1p40)
    throw UsageError(fmt::format("a tensor would have {:g} elements", elements),
                     "use a smaller --input or --filters");
}

/// Builds the network block by block; tensors are numbered as Model does.
class DeepCam {
 public:
  DeepCam(const DeepCamOptions& options, const NetworkSettings& settings)
      : o_(options), type_(settings.precision), model_(options.input) {
    model_.set_cuts(settings.cuts);
  }

  Model build() {
    std::size_t x = normalized("conv1", convolution("conv1", 32, wide(2, 1), Kind::kHeNormal, 0));
    x = normalized("conv2", convolution("conv2", 64, wide(1, 1), Kind::kHeNormal, x));
    const std::size_t low = x = down("block1", 128, x);
    x = down("block2", 256, x);
    x = down("block3", 728, x);
    for (std::int64_t block = 0; block < o_.middle_blocks; ++block)
      x = middle(fmt::format("block{}", block + 4), x);
    x = leave(fmt::format("block{}", o_.middle_blocks + 4), x);
    x = normalized("conv3", separable("conv3", 1536, 1, 2, x));
    x = normalized("conv4", separable("conv4", 1536, 1, 2, x));
    x = normalized("conv5", separable("conv5", 2048, 1, 2, x));
    return decode(pyramid(x), low);
  }

 private:
  /// A window of kernel x kernel, padded on each side so that stride 1 keeps the extents.
  static WindowOptions window(std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
    const std::int64_t padding = kernel / 2 * dilation;
    return {{kernel, 1, kernel},    {stride, 1, stride},   {dilation, 1, dilation},
            PaddingKind::kExplicit, {padding, 0, padding}, {padding, 0, padding}};
  }
  static WindowOptions wide(std::int64_t stride, std::int64_t dilation) {
    return window(3, stride, dilation);
  }
  static WindowOptions point(std::int64_t stride = 1) { return window(1, stride, 1); }

  std::size_t add(const std::string& name, std::unique_ptr<Layer> layer,
                  std::vector<std::size_t> inputs) {
    return model_.add(name, std::move(layer), std::move(inputs));
  }

  std::size_t convolution(const std::string& name, std::int64_t filters,
                          const WindowOptions& window, Kind initial, std::size_t x) {
    return add(name,
               std::make_unique<Convolution>(
                   ConvolutionOptions{o_.scaled(filters), window, 1, false, type_, initial}),
               {x});
  }

  /// Batch norm, rectified with `slope` 0.
  std::size_t norm(const std::string& name, std::size_t x, float slope = 1) {
    std::size_t moments = add(name + "_moments", std::make_unique<Moments>(0, type_), {x});
    moments = add(name + "_mean", std::make_unique<SampleAverage>(o_.batch_norm), {moments});
    return add(name + "_norm",
               std::make_unique<Normalize>(kBatchNormEpsilon, type_, o_.batch_norm, slope),
               {x, moments});
  }
  std::size_t normalized(const std::string& name, std::size_t x) { return norm(name, x, 0); }
  std::size_t rectified(const std::string& name, std::size_t x) {
    return add(name + "_act",
               std::make_unique<Elementwise>(ElementFunction::leaky_relu(0.0F), type_), {x});
  }

  /// A 3x3 convolution of each channel by itself, directly followed by one of 1x1.
  std::size_t separable(const std::string& name, std::int64_t filters, std::int64_t stride,
                        std::int64_t dilation, std::size_t x) {
    x = add(name + "_depthwise",
            std::make_unique<DepthwiseConvolution>(
                DepthwiseOptions{wide(stride, dilation), false, type_, Kind::kHeNormal}),
            {x});
    return convolution(name + "_pointwise", filters, point(), Kind::kHeNormal, x);
  }

  /// Three separable convolutions. In the middle of the network the second has a ReLU and the last
  /// is normalized; elsewhere neither.
  std::size_t branch(const std::string& name, std::array<std::int64_t, 3> filters,
                     std::int64_t stride, bool in_the_middle, std::size_t x) {
    const std::string a = name + "_a", b = name + "_b", c = name + "_c";
    x = normalized(a, separable(a, filters[0], 1, 1, x));
    x = norm(b, separable(b, filters[1], 1, 1, x), in_the_middle ? 0 : 1);
    x = separable(c, filters[2], stride, 1, x);
    return in_the_middle ? norm(c, x) : x;
  }
  std::size_t skip(const std::string& name, std::int64_t filters, std::int64_t stride,
                   std::size_t x) {
    return norm(name + "_skip",
                convolution(name + "_skip", filters, point(stride), Kind::kHeNormal, x));
  }
  std::size_t sum(const std::string& name, std::size_t branch, std::size_t skip) {
    return add(name + "_sum", std::make_unique<Add>(type_), {branch, skip});
  }

  /// Halves the extents.
  std::size_t down(const std::string& name, std::int64_t filters, std::size_t x) {
    const std::size_t y = branch(name, {filters, filters, filters}, 2, false, x);
    return rectified(name, sum(name, y, skip(name, filters, 2, x)));
  }
  std::size_t middle(const std::string& name, std::size_t x) {
    return rectified(name, sum(name, branch(name, {728, 728, 728}, 1, true, x), x));
  }
  std::size_t leave(const std::string& name, std::size_t x) {
    const std::size_t y = branch(name, {728, 1024, 1024}, 1, false, x);
    return sum(name, y, skip(name, 1024, 1, x));
  }

  /// The atrous spatial pyramid: views of several widths, side by side.
  std::size_t pyramid(std::size_t x) {
    const std::string first = "aspp1", pool = "aspp5";
    std::vector<std::size_t> views{
        normalized(first, convolution(first, 256, point(), Kind::kHeNormal, x))};
    for (const int rate : kRates) {
      const std::string name = fmt::format("aspp{}", views.size() + 1);
      views.push_back(normalized(name, convolution(name, 256, wide(1, rate), Kind::kHeNormal, x)));
    }
    std::size_t y = add(pool + "_average", std::make_unique<GlobalAverage>(type_), {x});
    y = convolution(pool, 256, point(), Kind::kFanInUniform, y);
    y = rectified(pool, add(pool + "_affine", std::make_unique<Affine>(type_), {y}));
    const Spatial coarse{o_.input.d / kDivisor, 1, o_.input.w / kDivisor};
    views.push_back(add(pool + "_tile", std::make_unique<Tile>(coarse, type_), {y}));
    y = add("aspp_concat", std::make_unique<Concat>(type_), views);
    return normalized("bottleneck",
                      convolution("bottleneck", 256, point(), Kind::kFanInUniform, y));
  }

  /// Doubles the extents.
  std::size_t larger(const std::string& name, std::int64_t filters, std::size_t x,
                     bool writes_fp32 = false) {
    TransposedConvolutionOptions options;
    options.compute = type_;
    options.writes_fp32 = writes_fp32;
    options.filters = filters;
    options.window = wide(2, 1);
    options.output_padding = {1, 0, 1};
    options.bias = false;
    options.initial = Kind::kFanInUniform;
    return add(name, std::make_unique<TransposedConvolution>(options), {x});
  }

  Model decode(std::size_t x, std::size_t low) {
    const auto uniform = [&](const std::string& name, std::int64_t filters,
                             const WindowOptions& window, std::size_t y) {
      return normalized(name, convolution(name, filters, window, Kind::kFanInUniform, y));
    };
    const std::int64_t filters = o_.scaled(256);
    low = uniform("low", 48, point(), low);
    x = normalized("up1", larger("up1", filters, x));
    x = normalized("up2", larger("up2", filters, x));
    x = add("low_concat", std::make_unique<Concat>(type_), {x, low});
    x = uniform("merge1", 256, wide(1, 1), x);
    x = uniform("merge2", 256, wide(1, 1), x);
    x = add("merge3",
            std::make_unique<Convolution>(
                ConvolutionOptions{filters, point(), 1, true, type_, Kind::kFanInUniform}),
            {x});
    x = normalized("up3", larger("up3", filters, x));
    larger("head", std::ssize(kClassWeights), x, true);
    return std::move(model_);
  }

  DeepCamOptions o_;
  DataType type_;  // the type of the tensors between the input and the logits
  Model model_;
};

std::vector<NetworkOption> deepcam_options() {
  return {{.name = "filters",
           .placeholder = "F",
           .fallback = std::int64_t{32},
           .help = "filters of the first convolution; those of all others are as many times more "
                   "as in the published network, rounded down",
           .at_least = 2,
           .at_most = 4096},
          {.name = "middle-blocks",
           .placeholder = "N",
           .fallback = std::int64_t{16},
           .help = "blocks between those that halve the extents and the pyramid",
           .at_least = 0,
           .at_most = 1024},
          {.name = "batch-norm",
           .placeholder = "N",
           .fallback = std::int64_t{2},
           .help = "batch normalization over N consecutive samples of the global batch; nearly all "
                   "published runs have 2",
           .at_least = 1}};
}

Model make_deepcam(const NetworkSettings& settings) {
  const DeepCamOptions options(settings);
  check(options, settings);
  return DeepCam(options, settings).build();
}

Spatial padded_deepcam_extents(const NetworkSettings& settings) {
  return nearest_extents(DeepCamOptions(settings), true);
}

std::unique_ptr<Loss> make_deepcam_loss(const NetworkSettings& /*settings*/, const Shape& output) {
  return make_loss("ce", output, {{kClassWeights.begin(), kClassWeights.end()}, Score::kIou});
}

std::vector<std::string> class_names(const NetworkSettings& /*settings*/) {
  return {"background", "cyclone", "river"};
}

Network deepcam() {
  return {.name = "deepcam",
          .summary = "finds cyclones and rivers of vapour in images",
          .input = {16, 768, 1, 1152},
          .input_type = DataType::kFloat32,
          .options = deepcam_options(),
          .make = make_deepcam,
          .make_loss = make_deepcam_loss,
          .output_names = class_names,
          .padded_extents = padded_deepcam_extents};
}

const Registered<Network> kDeepCam(deepcam);

}  // namespace
}  // namespace halomesh
