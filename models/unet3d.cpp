// SPDX-License-Identifier: Apache-2.0
// The 3-D U-Net: classifies the voxels of a volume. A way down to ever coarser levels, a way up
// again, and between them, on each level, a tensor that is passed across.
//
// The defaults are the network of MLPerf Training (github.com/mlcommons/training,
// retired_benchmarks/unet3d/pytorch, model/unet3d.py and model/layers.py), which follows Isensee et
// al., Nature Methods 18 (2021): 31,190,243 parameters in 78 tensors for one channel and three
// classes. `--down pool` is the network of Cicek et al. (arXiv:1606.06650) with padded
// convolutions, as LBANN has it (github.com/LLNL/lbann, applications/segmentation/unet3d):
// 19,070,560 parameters.
#include <algorithm>
#include <memory>

#include "error.hpp"
#include "models/network.hpp"
#include "src/nn/kernels/moments.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/convolution.hpp"
#include "src/nn/layers/normalize.hpp"
#include "src/nn/layers/pooling.hpp"
#include "src/nn/layers/sample_average.hpp"
#include "src/nn/layers/transposed_convolution.hpp"
#include "src/nn/losses/registry.hpp"
#include "src/nn/losses/segmentation_loss.hpp"

namespace halomesh {
namespace {

constexpr auto kInitial = InitialValues::Kind::kFanInUniform;  // PyTorch's default
constexpr float kInstanceNormEpsilon = 1e-5F, kRectifier = 0;

struct UNetOptions {
  Shape input;
  std::int64_t filters = 0, levels = 0, most_filters = 0, classes = 0;
  bool pools = false;
  std::int64_t batch_norm = 0;
  GradientKernels kernels = GradientKernels::kAuto;

  explicit UNetOptions(const NetworkSettings& settings)
      : input(settings.input),
        filters(settings.get<std::int64_t>("filters")),
        levels(settings.get<std::int64_t>("levels")),
        most_filters(settings.get<std::int64_t>("most-filters")),
        classes(settings.get<std::int64_t>("classes")),
        pools(settings.get<std::string>("down") == "pool"),
        batch_norm(settings.get<std::int64_t>("batch-norm")) {
    const auto& name = settings.get<std::string>("kernels");
    if (name == "winograd") kernels = GradientKernels::kWinograd;
    if (name == "dense") kernels = GradientKernels::kDense;
  }

  /// The filters of level `level`; level 0 is the finest.
  std::int64_t filters_of(std::int64_t level) const {
    return std::min(filters << level, most_filters);
  }
  /// The number of which extents must be multiples: each level but the first halves them.
  std::int64_t divisor() const { return std::int64_t{1} << (levels - 1); }
  /// The window limited to one plane along axes of extent 1, such as those of images.
  WindowOptions on(WindowOptions window) const {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (input.spatial()[axis] != 1) continue;
      window.kernel[axis] = window.stride[axis] = 1;
      window.pad_before[axis] = window.pad_after[axis] = 0;
    }
    return window;
  }
};

/// Each extent rounded down or up to a multiple of the divisor.
Spatial nearest_extents(const UNetOptions& o, bool up) {
  Spatial extents = o.input.spatial();
  for (std::int64_t& extent : extents) {
    if (extent == 1) continue;
    const std::int64_t below = extent / o.divisor() * o.divisor();
    extent = std::max(o.divisor(), up && below < extent ? below + o.divisor() : below);
  }
  return extents;
}

// For example "96x128x32x1".
std::string nearest_input(const UNetOptions& o, bool up) {
  const Spatial extents = nearest_extents(o, up);
  return fmt::format("{}", Shape{o.input.c, extents[0], extents[1], extents[2]});
}

void check(const UNetOptions& o, const NetworkSettings& settings) {
  if (settings.reproducible)
    throw UsageError("--reproducible has no kernels for the network unet3d",
                     "train it without --reproducible");
  if (o.filters > o.most_filters)
    throw UsageError(
        fmt::format("--filters {} is more than --most-filters {}", o.filters, o.most_filters),
        "give at least as many to --most-filters");
  const Spatial extents = o.input.spatial();
  const auto fits = [&](std::int64_t extent) {
    return extent == 1 || (extent > 0 && extent % o.divisor() == 0);
  };
  if (!std::all_of(extents.begin(), extents.end(), fits)) {
    const std::string below = nearest_input(o, false), above = nearest_input(o, true);
    throw UsageError(
        fmt::format("--input {} cannot be halved {} times, as {} levels do", o.input, o.levels - 1,
                    o.levels),
        fmt::format("use multiples of {}, e.g. --input {}{}{}, or fewer --levels; --pad VALUE "
                    "pads samples",
                    o.divisor(), below, below == above ? "" : " or ", below == above ? "" : above));
  }
  const bool leaves_one = std::all_of(extents.begin(), extents.end(), [&](std::int64_t extent) {
    return extent == 1 || extent == o.divisor();
  });
  if (o.batch_norm <= 1 && leaves_one)
    throw UsageError(
        fmt::format("--input {} leaves one voxel on the lowest of {} levels, and a single voxel "
                    "cannot be normalized",
                    o.input, o.levels),
        fmt::format("use fewer --levels, an extent of {} or more, or --batch-norm of 2 or more",
                    2 * o.divisor()));
  const double elements = static_cast<double>(extents[0]) * static_cast<double>(extents[1]) *
                          static_cast<double>(extents[2]) * 2 *
                          static_cast<double>(std::max(o.filters, o.classes));
  if (elements > 0x1p40)
    throw UsageError(fmt::format("a tensor would have {:g} elements", elements),
                     "use a smaller --input or --filters");
}

/// Builds the network level by level; tensors are numbered as Model does.
class UNet {
 public:
  UNet(const UNetOptions& options, const NetworkSettings& settings)
      : o_(options), type_(settings.precision), model_(options.input) {
    model_.set_cuts(settings.cuts);
  }

  Model build() {
    std::vector<std::size_t> across;
    std::size_t x = 0;
    for (std::int64_t level = 0; level < o_.levels; ++level) {
      x = down(level, x);
      if (level + 1 < o_.levels) across.push_back(x);
    }
    for (std::int64_t level = o_.levels - 1; level-- > 0;)
      x = up(level, x, across[static_cast<std::size_t>(level)]);
    add("head",
        std::make_unique<Convolution>(
            ConvolutionOptions{o_.classes, kOne, 1, !o_.pools, type_, kInitial, true}),
        {x});
    return std::move(model_);
  }

 private:
  inline static const WindowOptions kOne = WindowOptions::cube(1, 1, PaddingKind::kSame);
  WindowOptions half() const { return o_.on(WindowOptions::cube(2, 2, PaddingKind::kValid)); }
  /// 3x3x3 with one plane of padding on each side.
  WindowOptions wide(std::int64_t stride) const {
    WindowOptions window = WindowOptions::cube(3, stride, PaddingKind::kExplicit);
    window.pad_before = window.pad_after = {1, 1, 1};
    return o_.on(window);
  }

  std::size_t add(const std::string& name, std::unique_ptr<Layer> layer,
                  std::vector<std::size_t> inputs) {
    return model_.add(name, std::move(layer), std::move(inputs));
  }

  /// Convolution number `number` of a stage, normalized and rectified.
  std::size_t block(const std::string& stage, int number, std::int64_t filters, std::int64_t stride,
                    std::size_t x) {
    const auto name = [&](const char* what) { return fmt::format("{}_{}{}", stage, what, number); };
    x = add(name("conv"),
            std::make_unique<Convolution>(ConvolutionOptions{filters, wide(stride), 1, false, type_,
                                                             kInitial, false, o_.kernels}),
            {x});
    std::size_t moments = add(name("moments"), std::make_unique<Moments>(0, type_), {x});
    if (o_.batch_norm > 0)
      moments = add(name("mean"), std::make_unique<SampleAverage>(o_.batch_norm), {moments});
    return add(name("norm"),
               std::make_unique<Normalize>(kInstanceNormEpsilon, type_, o_.batch_norm, kRectifier),
               {x, moments});
  }

  /// Two convolutions. The first halves the extents, except on the first level and after a pooling.
  std::size_t down(std::int64_t level, std::size_t x) {
    const std::string stage = fmt::format("down{}", level + 1);
    const bool halves = level > 0;
    if (o_.pools) {
      if (halves) x = add(stage + "_pool", std::make_unique<MaxPooling>(half(), type_), {x});
      x = block(stage, 1, o_.filters_of(level), 1, x);
      return block(stage, 2, o_.filters_of(level + 1), 1, x);
    }
    x = block(stage, 1, o_.filters_of(level), halves ? 2 : 1, x);
    return block(stage, 2, o_.filters_of(level), 1, x);
  }

  /// Doubles the extents of `x`, puts it before the tensor passed across, and convolves both twice.
  std::size_t up(std::int64_t level, std::size_t x, std::size_t across) {
    const std::string stage = fmt::format("up{}", level + 1);
    // With pooling, both the tensor passed across and the level's output have twice its filters.
    const std::int64_t filters = o_.filters_of(o_.pools ? level + 1 : level);
    TransposedConvolutionOptions larger;
    larger.filters = o_.pools ? o_.filters_of(level + 2) : filters;
    larger.window = half();
    larger.bias = !o_.pools;
    larger.initial = kInitial;
    larger.compute = type_;
    x = add(stage + "_larger", std::make_unique<TransposedConvolution>(larger), {x});
    x = add(stage + "_concat", std::make_unique<Concat>(type_), {x, across});
    x = block(stage, 1, filters, 1, x);
    return block(stage, 2, filters, 1, x);
  }

  UNetOptions o_;
  DataType type_;  // the type of the tensors between the input and the logits
  Model model_;
};

std::vector<NetworkOption> unet3d_options() {
  using enum SettingRole;
  return {{.name = "filters",
           .placeholder = "F",
           .fallback = std::int64_t{32},
           .help = "filters of the finest level; each further level doubles them",
           .at_least = 1,
           .at_most = 65536},
          {.name = "levels",
           .placeholder = "L",
           .fallback = std::int64_t{6},
           .help = "number of resolutions, each with half the extents of the one before",
           .at_least = 2,
           .at_most = 12},
          {.name = "most-filters",
           .placeholder = "F",
           .fallback = std::int64_t{320},
           .help = "no level has more filters; 320 in MLPerf Training, 512 in LBANN's network",
           .at_least = 1,
           .at_most = 65536},
          {.name = "down",
           .fallback = std::string("stride"),
           .help = "how extents are halved: stride: by a convolution, as in MLPerf Training; pool: "
                   "by maximum pooling behind a convolution that doubles the filters, and without "
                   "biases, as in LBANN's network (Cicek et al.)",
           .choices = {"stride", "pool"}},
          {.name = "batch-norm",
           .placeholder = "N",
           .fallback = std::int64_t{0},
           .help = "batch normalization over N consecutive samples of the global batch; 0: "
                   "instance normalization, each sample alone",
           .at_least = 0,
           .stored_at_default = false},
          {.name = "classes",
           .placeholder = "C",
           .fallback = std::int64_t{3},
           .help = "classes of voxels, of which the first is the background",
           .at_least = 2,
           .at_most = static_cast<double>(SegmentationLoss::kMostClasses)},
          {.name = "loss",
           .fallback = std::string("dice+ce"),
           .help = "what is minimized: " + loss_summaries(DataType::kUint8),
           .role = kTraining,
           .choices = loss_names(DataType::kUint8)},
          {.name = "kernels",
           .fallback = std::string("auto"),
           .help = "how convolutions are computed: auto: by Winograd's minimal filtering where a "
                   "model of the cost says that it is faster; winograd: wherever the shapes fit; "
                   "dense: by oneDNN's kernels",
           .role = kComputing,
           .choices = {"auto", "winograd", "dense"}}};
}

Model make_unet(const NetworkSettings& settings) {
  const UNetOptions options(settings);
  check(options, settings);
  return UNet(options, settings).build();
}

Spatial padded_unet_extents(const NetworkSettings& settings) {
  return nearest_extents(UNetOptions(settings), true);
}

std::unique_ptr<Loss> make_unet_loss(const NetworkSettings& settings, const Shape& output) {
  return make_loss(settings.get<std::string>("loss"), output, {.score = Score::kDice});
}

Network unet3d() {
  return {.name = "unet3d",
          .summary = "classifies the voxels of a volume",
          .input = {1, 128, 128, 128},
          .input_type = DataType::kFloat32,
          .options = unet3d_options(),
          .make = make_unet,
          .make_loss = make_unet_loss,
          .padded_extents = padded_unet_extents};
}

const Registered<Network> kUnet3d(unet3d);

}  // namespace
}  // namespace halomesh
