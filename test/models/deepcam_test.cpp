// SPDX-License-Identifier: Apache-2.0
// DeepCAM: parameters and their initial values, extents, and invalid options.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "error.hpp"
#include "models/registry.hpp"

namespace halomesh {
namespace {

using Change = std::function<void(NetworkSettings&)>;
using Kind = InitialValues::Kind;

const Network& deepcam() { return network_named("deepcam"); }

ModelGeometry geometry_of(const NetworkSettings& settings, const PartGrid& grid = {1, 1, 1}) {
  return deepcam().make(settings).geometry(grid);
}

Shape shape_of(const ModelGeometry& geometry, const std::string& layer) {
  const auto found = std::find_if(geometry.tensors().begin(), geometry.tensors().end(),
                                  [&](const TensorGeometry& t) { return t.name == layer; });
  REQUIRE_MESSAGE(found != geometry.tensors().end(), layer);
  return found->shape;
}

const ParameterGeometry& parameter_of(const ModelGeometry& geometry, const std::string& layer,
                                      const std::string& name) {
  const auto& all = geometry.parameters();
  const auto found = std::find_if(all.begin(), all.end(), [&](const ParameterPlacement& p) {
    return p.layer_name == layer && p.geometry.name == name;
  });
  REQUIRE_MESSAGE(found != all.end(), layer);
  return found->geometry;
}

std::string refused(const Change& change) {
  NetworkSettings settings = deepcam().defaults();
  change(settings);
  try {
    deepcam().make(settings);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

void expect_refused(const Change& change, const std::string& text) {
  const std::string message = refused(change);
  CAPTURE(message);
  CAPTURE(text);
  CHECK(message.find(text) != std::string::npos);
}

Change input(const Shape& shape) {
  return [shape](NetworkSettings& s) { s.input = shape; };
}

}  // namespace

TEST_CASE("deepcam: 56,454,720 parameters in 301 tensors, moving averages of 48,880 channels") {
  const ModelGeometry geometry = geometry_of(deepcam().defaults());
  CHECK(geometry.parameter_count() == 56454720);
  std::int64_t trained = 0, averages = 0;
  for (const ParameterPlacement& p : geometry.parameters()) {
    if (p.geometry.moving_average > 0)
      averages += p.geometry.volume();
    else
      ++trained;
  }
  CHECK(trained == 301);
  CHECK(averages == 2 * 48880);
}

TEST_CASE("deepcam: extents and channels of the published network") {
  const ModelGeometry geometry = geometry_of(deepcam().defaults());
  struct Row {
    const char* layer;
    Shape shape;
  };
  for (const Row& row : {Row{"conv1_norm", {32, 384, 1, 576}},
                         {"conv2_norm", {64, 384, 1, 576}},
                         {"block1_b_norm", {128, 384, 1, 576}},
                         {"block1_act", {128, 192, 1, 288}},
                         {"block2_act", {256, 96, 1, 144}},
                         {"block3_act", {728, 48, 1, 72}},
                         {"block19_act", {728, 48, 1, 72}},
                         {"block20_sum", {1024, 48, 1, 72}},
                         {"conv4_norm", {1536, 48, 1, 72}},
                         {"conv5_norm", {2048, 48, 1, 72}},
                         {"aspp5_affine", {256, 1, 1, 1}},
                         {"aspp_concat", {1280, 48, 1, 72}},
                         {"low_norm", {48, 192, 1, 288}},
                         {"low_concat", {304, 192, 1, 288}},
                         {"merge3", {256, 192, 1, 288}},
                         {"up3_norm", {256, 384, 1, 576}},
                         {"head", {3, 768, 1, 1152}}})
    CHECK_MESSAGE(shape_of(geometry, row.layer) == row.shape, row.layer);
  CHECK(geometry.tensors().back().name == "head");
}

TEST_CASE("deepcam: low-level features and the input of block 2 are behind the ReLU of block 1") {
  const Model model = deepcam().make(deepcam().defaults());
  const auto inputs_of = [&](const std::string& layer) {
    std::vector<std::string> names;
    for (const ModelLayer& l : model.layers())
      if (l.name == layer)
        for (const std::size_t i : l.inputs) names.push_back(model.layers()[i - 1].name);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(inputs_of("low") == Names{"block1_act"});
  CHECK(inputs_of("block2_a_depthwise") == Names{"block1_act"});
  CHECK(inputs_of("block2_skip") == Names{"block1_act"});
  CHECK(inputs_of("block1_sum") == Names{"block1_c_pointwise", "block1_skip_norm"});
  CHECK(inputs_of("block1_c_depthwise") == Names{"block1_b_norm"});
  CHECK(inputs_of("block4_c_depthwise") == Names{"block4_b_norm"});
  CHECK(inputs_of("block4_sum") == Names{"block4_c_norm", "block3_act"});
  CHECK(inputs_of("conv3_depthwise") == Names{"block20_sum"});
  CHECK(inputs_of("low_concat") == Names{"up2_norm", "low_norm"});
  CHECK(inputs_of("up3") == Names{"merge3"});
}

TEST_CASE("deepcam: strides and dilations of windows") {
  const Model model = deepcam().make(deepcam().defaults());
  struct Row {
    const char *layer, *kernel;
  };
  for (const Row& row : {Row{"conv1", "3x1x3 stride 2x1x2 padding 1x0x1+1x0x1"},
                         {"block1_c_depthwise", "3x1x3 stride 2x1x2 padding 1x0x1+1x0x1"},
                         {"block3_skip", "1x1x1 stride 2x1x2 padding 0x0x0+0x0x0"},
                         {"block20_c_depthwise", "3x1x3 padding 1x0x1+1x0x1"},
                         {"conv3_depthwise", "3x1x3 dilation 2x1x2 padding 2x0x2+2x0x2"},
                         {"conv5_depthwise", "3x1x3 dilation 2x1x2 padding 2x0x2+2x0x2"},
                         {"aspp2", "3x1x3 dilation 6x1x6 padding 6x0x6+6x0x6"},
                         {"aspp3", "3x1x3 dilation 12x1x12 padding 12x0x12+12x0x12"},
                         {"aspp4", "3x1x3 dilation 18x1x18 padding 18x0x18+18x0x18"}}) {
    const auto& layers = model.layers();
    const auto found = std::find_if(layers.begin(), layers.end(),
                                    [&](const ModelLayer& l) { return l.name == row.layer; });
    REQUIRE_MESSAGE(found != layers.end(), row.layer);
    const std::string kernel = found->layer->kernel_name();
    CAPTURE(kernel);
    CHECK(kernel.find(std::string(" ") + row.kernel + " ") != std::string::npos);
  }
}

TEST_CASE("deepcam: initial values are those of the reference") {
  const ModelGeometry geometry = geometry_of(deepcam().defaults());
  struct Row {
    const char *layer, *name;
    Kind kind;
    std::int64_t fan_in;
  };
  for (const Row& row : {Row{"conv1", "weight", Kind::kHeNormal, 16 * 9},
                         {"block1_a_depthwise", "weight", Kind::kHeNormal, 9},
                         {"block1_skip", "weight", Kind::kHeNormal, 64},
                         {"conv5_pointwise", "weight", Kind::kHeNormal, 1536},
                         {"aspp1", "weight", Kind::kHeNormal, 2048},
                         {"aspp4", "weight", Kind::kHeNormal, 2048 * 9},
                         {"aspp5", "weight", Kind::kFanInUniform, 2048},
                         {"bottleneck", "weight", Kind::kFanInUniform, 1280},
                         {"low", "weight", Kind::kFanInUniform, 128},
                         {"up1", "weight", Kind::kFanInUniform, 256 * 9},
                         {"merge1", "weight", Kind::kFanInUniform, 304 * 9},
                         {"merge3", "weight", Kind::kFanInUniform, 256},
                         {"merge3", "bias", Kind::kFanInUniform, 256},
                         {"head", "weight", Kind::kFanInUniform, 3 * 9}}) {
    const ParameterGeometry& found = parameter_of(geometry, row.layer, row.name);
    CAPTURE(row.layer);
    CHECK(found.initial.kind == row.kind);
    CHECK(found.fan_in == row.fan_in);
  }
  CHECK(parameter_of(geometry, "aspp5_affine", "weight").initial.constant == 1.0F);
  CHECK(parameter_of(geometry, "conv1_norm", "weight").initial.constant == 1.0F);
}

TEST_CASE("deepcam: multiply-adds are those of its convolutions") {
  const Model model = deepcam().make(deepcam().defaults());
  const ModelGeometry geometry = model.geometry({1, 1, 1});
  double convolutions = 0, all = 0;
  for (std::size_t l = 0; l < model.layers().size(); ++l) {
    const Layer& layer = *model.layers()[l].layer;
    const auto flops = static_cast<double>(layer.forward_flops(geometry.layers()[l].src_shapes));
    all += flops;
    const std::string kernel = layer.kernel_name();
    for (const char* const kind : {"convolution", "depthwise", "transposed"})
      if (kernel.starts_with(kind)) convolutions += flops;
  }
  // Counted apart, for an image of 768x1152: 327.67 billion multiply-adds.
  CHECK(convolutions * 0.5e-9 == doctest::Approx(327.67).epsilon(1e-4));
  CHECK(all < 1.02 * convolutions);
}

TEST_CASE("deepcam: rows are cut along d, and all parts have work") {
  const ModelGeometry geometry = geometry_of(deepcam().defaults(), {2, 1, 2});
  const auto loss = deepcam().make_loss(deepcam().defaults(), geometry.tensors().back().shape);
  CHECK(loss->score() == Score::kIou);
  CHECK(loss->target_shape() == Shape{1, 768, 1, 1152});
  for (std::int64_t part = 0; part < 4; ++part) {
    const Box& owned = geometry.tensors().back().owned[static_cast<std::size_t>(part)];
    CHECK(loss->target_box(owned).volume() == 384 * 576);
  }
}

TEST_CASE("deepcam: a narrower network has layers that are as many times narrower") {
  NetworkSettings settings = deepcam().defaults();
  settings.values["filters"] = std::int64_t{8};
  settings.values["middle-blocks"] = std::int64_t{2};
  const ModelGeometry geometry = geometry_of(settings);
  CHECK(shape_of(geometry, "block3_act").c == 182);
  CHECK(shape_of(geometry, "block6_sum").c == 256);
  CHECK(shape_of(geometry, "low_concat").c == 76);
  CHECK(shape_of(geometry, "head").c == 3);
}

TEST_CASE("deepcam: inputs that do not fit are refused with those that do") {
  expect_refused(input({16, 760, 1, 1152}), "--input 760x1x1152x16 cannot be halved 4 times");
  expect_refused(input({16, 760, 1, 1152}), "--input 752x1x1152x16 or 768x1x1152x16");
  expect_refused(input({16, 768, 1, 7}), "--input 768x1x16x16");
  expect_refused(input({16, 768, 1152, 1}), "--input ROWSx1xCOLUMNSxCHANNELS");
  expect_refused(
      [](NetworkSettings& s) {
        s.input = {16, 16, 1, 16};
        s.values["batch-norm"] = std::int64_t{1};
      },
      "leaves one pixel on the coarsest level");
  CHECK(refused(input({16, 16, 1, 16})).empty());
  CHECK(refused(input({4, 96, 1, 144})).empty());
  expect_refused(input({16, 1 << 20, 1, 1 << 20}), "elements");
  expect_refused([](auto& s) { s.reproducible = true; }, "--reproducible");
  NetworkSettings odd = deepcam().defaults();
  odd.input = {16, 721, 1, 1440};
  CHECK(deepcam().padded_extents(odd) == Spatial{736, 1, 1440});
}

TEST_CASE("deepcam: in bf16 all tensors are, but for images, statistics, means and logits") {
  NetworkSettings settings = deepcam().defaults();
  settings.precision = DataType::kBfloat16;
  const Model model = deepcam().make(settings);
  const std::vector<DataType> types = model.types();
  CHECK(types.front() == DataType::kFloat32);
  CHECK(types.back() == DataType::kFloat32);
  std::size_t statistics = 0;
  for (std::size_t t = 1; t + 1 < types.size(); ++t) {
    const std::string& name = model.layers()[t - 1].name;
    DataType expected = DataType::kBfloat16;
    if (name.ends_with("_moments") || name.ends_with("_mean")) expected = DataType::kFloat64;
    if (name == "aspp5_average") expected = DataType::kFloat32;
    statistics += expected == DataType::kFloat64 ? 1 : 0;
    CHECK_MESSAGE(types[t] == expected, name);
  }
  CHECK(statistics > 100);
}

}  // namespace halomesh
