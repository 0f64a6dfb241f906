// SPDX-License-Identifier: Apache-2.0
// CosmoFlow: parameters, names and the geometry of the published meshes; invalid options.
#include "models/cosmoflow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "error.hpp"
#include "models/registry.hpp"
#include "partition/cuts.hpp"
#include "src/nn/parameters.hpp"
#include "test/harness/layer_parts.hpp"

namespace halomesh {
namespace {

const ParameterPlacement& parameter(const ModelGeometry& geometry, const std::string& name) {
  for (const ParameterPlacement& p : geometry.parameters())
    if (p.layer_name + '/' + p.geometry.name == name) return p;
  throw Error("there is no parameter " + name);
}

std::vector<std::int64_t> first_parts(std::int64_t count) {
  std::vector<std::int64_t> parts;
  for (std::int64_t p = 0; p < count; ++p) parts.push_back(p);
  return parts;
}

std::vector<std::string> layer_names(const CosmoFlowOptions& options) {
  const Model model = make_cosmoflow(options);
  std::vector<std::string> names;
  for (const ModelLayer& layer : model.layers()) names.push_back(layer.name);
  return names;
}

TEST_CASE("the published numbers of parameters") {
  CosmoFlowOptions options;
  CHECK(make_cosmoflow(options).geometry({1, 1, 1}).parameter_count() == 5597604);
  options.kernel = 3;
  CHECK(make_cosmoflow(options).geometry({1, 1, 1}).parameter_count() == 8907556);
}

TEST_CASE("averaged features leave the dense layers one input each, on any cut") {
  CosmoFlowOptions options;
  options.average = true;
  for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{4, 4, 1}}) {
    const ModelGeometry geometry = make_cosmoflow(options).geometry(grid);
    CHECK(parameter(geometry, "fc1/weight").geometry.volume() == 512 * 128);
    CHECK(geometry.parameter_count() == 5597604 - 63 * 512 * 128);
  }
  const std::vector<std::string> names = layer_names(options);
  CHECK(std::find(names.begin(), names.end(), "average") + 1 ==
        std::find(names.begin(), names.end(), "fc1"));
}

TEST_CASE("batch norm follows each convolution; its moving averages are not counted") {
  CosmoFlowOptions options;
  options.batch_norm = 4;
  for (const PartGrid& grid : {PartGrid{1, 1, 1}, PartGrid{4, 4, 1}}) {
    const ModelGeometry geometry = make_cosmoflow(options).geometry(grid);
    CHECK(geometry.parameter_count() == 5597604 + 2 * (32 + 64 + 128 + 256 + 512));
    CHECK(parameter(geometry, "norm5/running_variance").geometry.volume() == 512);
  }
  const std::vector<std::string> names = layer_names(options);
  const auto first = std::find(names.begin(), names.end(), "conv2");
  CHECK(std::vector<std::string>(first, first + 5) ==
        std::vector<std::string>{"conv2", "moments2", "mean2", "norm2", "conv3"});
}

TEST_CASE("batch norm of one sample needs more than one voxel") {
  CosmoFlowOptions options;
  options.batch_norm = 1;
  options.conv_layers = 4;
  for (const Shape& input : {Shape{4, 16, 16, 16}, Shape{4, 31, 16, 16}}) {
    options.input = input;
    CHECK_THROWS_WITH_AS(make_cosmoflow(options),
                         doctest::Contains("leaves one voxel after 4 convolution layers"),
                         UsageError);
  }
  options.input = {4, 16, 32, 16};
  CHECK_NOTHROW(make_cosmoflow(options));
  options.input = {4, 16, 16, 16};
  options.batch_norm = 2;
  CHECK_NOTHROW(make_cosmoflow(options));
}

TEST_CASE("parameters layer by layer") {
  struct Row {
    const char* layer;
    std::int64_t kernel2, kernel3;
  };
  // conv: (k^3 inputs + 1) outputs; dense: (inputs + 1) outputs.
  const std::vector<Row> rows = {{"conv1", 1056, 3488},       {"conv2", 16448, 55360},
                                 {"conv3", 65664, 221312},    {"conv4", 262400, 884992},
                                 {"conv5", 1049088, 3539456}, {"fc1", 4194432, 4194432},
                                 {"fc2", 8256, 8256},         {"fc3", 260, 260}};
  CosmoFlowOptions options;
  const ModelGeometry g2 = make_cosmoflow(options).geometry({1, 1, 1});
  options.kernel = 3;
  const ModelGeometry g3 = make_cosmoflow(options).geometry({1, 1, 1});
  for (const Row& row : rows) {
    const auto count = [&](const ModelGeometry& g) {
      return parameter(g, row.layer + std::string("/weight")).geometry.volume() +
             parameter(g, row.layer + std::string("/bias")).geometry.volume();
    };
    CAPTURE(row.layer);
    CHECK(count(g2) == row.kernel2);
    CHECK(count(g3) == row.kernel3);
  }
  CHECK(rows.size() == 8);
}

TEST_CASE("names of the layers, in order") {
  CHECK(layer_names({}) == std::vector<std::string>{"conv1", "conv2", "conv3", "conv4", "conv5",
                                                    "fc1", "act_fc1", "dropout1", "fc2", "act_fc2",
                                                    "dropout2", "fc3", "tanh"});
  CosmoFlowOptions options;
  options.dropout = 0;
  options.fc = {16};
  options.conv_layers = 1;
  CHECK(layer_names(options) == std::vector<std::string>{"conv1", "fc1", "act_fc1", "fc2", "tanh"});
}

TEST_CASE("shapes: each block halves the extents and doubles the filters") {
  const ModelGeometry g = make_cosmoflow({}).geometry({1, 1, 1});
  int compared = 0;
  for (const TensorGeometry& t : g.tensors())
    for (std::int64_t i = 1; i <= 5; ++i) {
      const std::int64_t filters = 32 << (i - 1);
      if (t.name != "conv" + std::to_string(i)) continue;
      const std::int64_t extent = 128 >> i;
      CHECK(t.shape == Shape{filters, extent, extent, extent});
      ++compared;
    }
  CHECK(compared == 5);
  CHECK(g.tensors().back().shape == Shape{4, 1, 1, 1});
}

TEST_CASE("in bf16 the convolutions pass bf16 on, and the dense layers stay fp32") {
  constexpr DataType kFp32 = DataType::kFloat32, kBf16 = DataType::kBfloat16;
  CosmoFlowOptions options;
  CHECK(make_cosmoflow(options).types() == std::vector<DataType>(14, kFp32));
  options.precision = kBf16;
  options.input_type = DataType::kInt16;
  std::vector<DataType> types(14, kFp32);
  types[0] = DataType::kInt16;
  std::fill_n(types.begin() + 1, 4, kBf16);  // conv5 writes fp32
  CHECK(make_cosmoflow(options).types() == types);
  CHECK(make_cosmoflow(options).input_type() == DataType::kInt16);
}

// On 128^3, in the order of the tensors: what part 5 receives of each.
std::vector<std::int64_t> received_bytes(const ModelGeometry& g) {
  std::vector<std::int64_t> received;
  for (const TensorGeometry& tensor : g.tensors())
    if (const std::int64_t volume = tensor.distribute.received_volume(5); volume > 0)
      received.push_back(volume * 4);
  return received;
}

TEST_CASE("128^3 on 4x4x1 parts in space: the halo of an interior part") {
  CosmoFlowOptions options;
  options.cuts = parse_cuts("space");
  const Model model = make_cosmoflow(options);
  const ModelGeometry g = model.geometry({4, 4, 1});
  constexpr std::int64_t part = 5, float_bytes = 4;
  // One plane of each cut axis and the edge between them, of each convolution's input:
  // (2 s + 1) W C floats for a block of s x s rows of width W.
  const std::vector<std::int64_t> expected = {133120, 270336, 139264, 73728, 40960};
  const std::vector<std::int64_t> received = received_bytes(g);
  CHECK(received == expected);
  std::int64_t total = 0;
  for (const std::int64_t bytes : received) total += bytes;
  CHECK(total == 657408);
  CHECK(g.tensors()[0].distribute.received_volume(part) * float_bytes == 133120);
  CHECK(total - 133120 == 524288);
}

std::vector<std::string> cut_by_channels(const CosmoFlowOptions& options, const PartGrid& grid) {
  const ModelGeometry g = make_cosmoflow(options).geometry(grid);
  std::vector<std::string> names;
  for (const TensorGeometry& tensor : g.tensors())
    if (grid.count() > 1 &&
        tensor.owned == cut_partition(tensor.shape, grid, {{1, 1, 1}, grid.count()}) &&
        tensor.owned != block_partition(tensor.shape, grid))
      names.push_back(tensor.name);
  return names;
}

TEST_CASE(
    "which convolutions are cut by channels alone: where the input is smaller than the weights") {
  using Names = std::vector<std::string>;
  CosmoFlowOptions options;
  options.cuts = parse_cuts("channels");
  // Kernel 2: conv4 has 524,288 inputs and 262,400 parameters, conv5 131,072 and 1,049,088.
  for (const PartGrid grid : {PartGrid{2, 1, 1}, PartGrid{2, 2, 2}, PartGrid{4, 4, 1}})
    CHECK(cut_by_channels(options, grid) == Names{"conv5"});
  CHECK(cut_by_channels(options, {1, 1, 1}).empty());
  CHECK(cut_by_channels(options, {4, 4, 4}).empty());  // 8 channels per part
  options.kernel = 3;                                  // conv4 has 884,992 parameters
  CHECK(cut_by_channels(options, {4, 4, 1}) == Names{"conv4", "conv5"});
  CHECK(cut_by_channels(options, {4, 4, 2}) == Names{"conv5"});
  options.input = {4, 512, 512, 512};
  options.conv_layers = 7;
  CHECK(cut_by_channels(options, {4, 4, 4}) == Names{"conv6", "conv7"});
  options.cuts = parse_cuts("space");
  CHECK(cut_by_channels(options, {4, 4, 4}).empty());
}

std::int64_t total_bytes(const CosmoFlowOptions& options, const PartGrid& grid,
                         const std::string& cuts) {
  CosmoFlowOptions with = options;
  with.cuts = parse_cuts(cuts);
  const ModelGeometry geometry = make_cosmoflow(with).geometry(grid);
  std::int64_t bytes = 0;
  for (const LayerChoice& choice : geometry.cuts()) bytes += choice.bytes.total();
  return bytes;
}

// Convolutions with fewer inputs than parameters by channels alone, where each part gets a vector.
std::string either_or_rule(const CosmoFlowOptions& options, const PartGrid& grid) {
  const ModelGeometry g = make_cosmoflow(options).geometry({1, 1, 1});
  std::string list;
  for (std::size_t l = 1; l < g.layers().size(); ++l) {
    if (!g.cuts()[l].may_split || g.tensors()[l + 1].shape.c < grid.count() * kChannelVector)
      continue;
    std::int64_t weights = 0;
    for (const ParameterPlacement& p : g.parameters())
      if (p.layer == l) weights += p.geometry.volume();
    if (g.tensors()[l].shape.volume() < weights)
      list += fmt::format("{}{}:1x{}", list.empty() ? "" : ",", g.layers()[l].name, grid.count());
  }
  return list.empty() ? "space" : list;
}

TEST_CASE("the published networks move no more bytes than cut in space or by channels alone") {
  int compared = 0;
  for (const std::int64_t extent : {128, 256, 512})
    for (const std::int64_t kernel : {2, 3})
      for (const PartGrid grid : {PartGrid{2, 1, 1}, PartGrid{2, 2, 1}, PartGrid{2, 2, 2},
                                  PartGrid{4, 4, 1}, PartGrid{4, 4, 2}, PartGrid{4, 4, 4}}) {
        CosmoFlowOptions options;
        options.input = {4, extent, extent, extent};
        options.kernel = kernel;
        options.conv_layers = extent == 128 ? 5 : extent == 256 ? 6 : 7;
        const std::int64_t bytes = total_bytes(options, grid, "auto");
        CHECK(bytes <= total_bytes(options, grid, either_or_rule(options, grid)));
        CHECK(bytes <= total_bytes(options, grid, "channels"));
        CHECK(bytes < total_bytes(options, grid, "space"));
        // At 64 parts, where channels alone are too few, less than 70 %.
        if (grid.count() == 64)
          CHECK(10 * bytes < 7 * total_bytes(options, grid, either_or_rule(options, grid)));
        ++compared;
      }
  CHECK(compared == 36);
}

TEST_CASE("128^3 on 4x4x1 parts: conv4 in eight blocks of two channel groups, fc1 along conv5") {
  const ModelGeometry g = make_cosmoflow({}).geometry({4, 4, 1});
  CHECK(g.cuts()[3].cut == TensorCut{{4, 2, 1}, 2});
  CHECK(g.cuts()[4].cut == TensorCut{{1, 1, 1}, 16});
  const ParameterPlacement& conv4 = parameter(g, "conv4/weight");
  REQUIRE(conv4.holders.size() == 2);
  CHECK(conv4.holders[0].parts == std::vector<std::int64_t>{0, 2, 4, 6, 8, 10, 12, 14});
  CHECK(conv4.holders[1].parts == std::vector<std::int64_t>{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(parameter(g, "conv5/weight").holders.size() == 16);
  // Part 5 has 32x64 voxels of conv3's output with conv4's neighbours, less its own.
  const TensorGeometry& conv3 = g.tensors()[3];
  CHECK(conv3.needed[5] == Box{{0, 4, 0, 0}, {128, 9, 9, 16}});
  CHECK(conv3.distribute.received_volume(5) == (5 * 9 - 4 * 4) * 16 * 128);
  // Cut 2x32, conv5 gives fc1 half of space and 16 channels of it on each part.
  const ModelGeometry wide = make_cosmoflow({}).geometry({4, 4, 4});
  CHECK(wide.cuts()[4].cut == TensorCut{{2, 1, 1}, 32});
  const ParameterPlacement& fc1 = parameter(wide, "fc1/weight");
  REQUIRE(fc1.holders.size() == 64);
  CHECK(fc1.slices[0] == ParameterSlice{{0, 128}, {{0, 0, 0, 0}, {16, 2, 4, 4}}});
  CHECK(fc1.slices[63] == ParameterSlice{{0, 128}, {{496, 2, 0, 0}, {512, 4, 4, 4}}});
}

TEST_CASE("128^3 on 4x4x1 parts: conv5 gathers its input, fc1 reads what it makes") {
  CosmoFlowOptions options;
  options.cuts = parse_cuts("channels");
  const ModelGeometry g = make_cosmoflow(options).geometry({4, 4, 1});
  // As in space but for conv5's input, 8^3 x 256 floats of which part 5 has a sixteenth.
  CHECK(received_bytes(g) == std::vector<std::int64_t>{133120, 270336, 139264, 73728, 491520});
  for (const std::string which : {"conv5/weight", "conv5/bias", "fc1/weight"}) {
    const ParameterPlacement& p = parameter(g, which);
    REQUIRE(p.holders.size() == 16);
    for (const SliceHolders& holders : p.holders) {
      CHECK(holders.parts.size() == 1);
      CHECK(holders.slice.volume() * 16 == p.geometry.volume());
    }
  }
}

TEST_CASE("the first values of parameters are the same on every grid") {
  CosmoFlowOptions options;
  options.input = {4, 32, 32, 32};
  options.filters = 8;
  const Model model = make_cosmoflow(options);
  const ModelGeometry whole = model.geometry({1, 1, 1});
  Parameters serial(whole, 0);
  serial.initialize(7);
  for (const PartGrid grid : {PartGrid{3, 1, 1}, PartGrid{2, 2, 1}, PartGrid{2, 2, 2}}) {
    const ModelGeometry g = model.geometry(grid);
    CHECK(std::any_of(g.cuts().begin(), g.cuts().end(),
                      [](const LayerChoice& choice) { return choice.cut.groups > 1; }));
    std::int64_t held = 0, wrong = 0;
    for (std::int64_t part = 0; part < grid.count(); ++part) {
      Parameters parameters(g, part);
      parameters.initialize(7);
      for (std::size_t i = 0; i < g.parameters().size(); ++i) {
        const ParameterRange* range = parameters.find(i);
        if (range == nullptr) continue;
        const float* const all = serial.values().data() + serial.find(i)->offset;
        const float* const mine = parameters.values().data() + range->offset;
        for_each_parameter_element(g.parameters()[i].geometry,
                                   g.parameters()[i].slices[static_cast<std::size_t>(part)],
                                   [&](std::size_t local, std::size_t global) {
                                     ++held;
                                     wrong += mine[local] == all[global] ? 0 : 1;
                                   });
      }
    }
    CHECK(held >= whole.parameter_count());
    CHECK(wrong == 0);
  }
}

TEST_CASE("128^3 on 4x4x1 parts: holders of parameters") {
  CosmoFlowOptions options;
  options.cuts = parse_cuts("channels");
  const ModelGeometry g = make_cosmoflow(options).geometry({4, 4, 1});
  for (const std::string name : {"conv1", "conv2", "conv3", "conv4"})
    for (const std::string which : {"/weight", "/bias"}) {
      const ParameterPlacement& p = parameter(g, name + which);
      REQUIRE(p.holders.size() == 1);
      CHECK(p.holders[0].parts == first_parts(16));
    }
  const ParameterPlacement& fc1 = parameter(g, "fc1/weight");
  REQUIRE(fc1.holders.size() == 16);
  std::int64_t held = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(fc1.holders[i].parts.size() == 1);
    held += fc1.holders[i].slice.volume();
    for (std::size_t j = 0; j < i; ++j)
      CHECK_FALSE(overlap(fc1.holders[i].slice, fc1.holders[j].slice));
  }
  CHECK(held == 4194304);
  for (const std::string name : {"fc1/bias", "fc2/weight", "fc2/bias", "fc3/weight", "fc3/bias"}) {
    const ParameterPlacement& p = parameter(g, name);
    REQUIRE(p.holders.size() == 1);
    CHECK(p.holders[0].parts == first_parts(1));
  }
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    CHECK_FALSE(error.hint().empty());
    return error.what();
  }
  return "nothing was thrown";
}

std::string refused(const CosmoFlowOptions& options) {
  return refusal([&] { make_cosmoflow(options); });
}

TEST_CASE("invalid options are refused, naming the option") {
  const auto with = [](auto set) {
    CosmoFlowOptions options;
    set(options);
    return refused(options);
  };
  CHECK(with([](auto& o) { o.kernel = 0; }) == "--kernel must be at least 1 (got 0)");
  CHECK(with([](auto& o) { o.filters = 0; }) == "--filters must be at least 1 (got 0)");
  CHECK(with([](auto& o) { o.conv_layers = 0; }) == "--conv-layers must be at least 1 (got 0)");
  CHECK(with([](auto& o) { o.targets = -1; }) == "--targets must be at least 1 (got -1)");
  CHECK(with([](auto& o) { o.fc = {128, 0}; }) == "--fc must be at least 1 (got 0)");
  CHECK(with([](auto& o) { o.dropout = 1; }).find("--dropout 1") == 0);
  CHECK(with([](auto& o) { o.leaky_slope = -0.1; }).find("slope -0.1") != std::string::npos);
  CHECK(with([](auto& o) { o.input = {4, 16, 128, 128}; }).find("too small") != std::string::npos);
  CHECK(with([](auto& o) {
          o.input = {0, 128, 128, 128};
        }).find("no elements") != std::string::npos);
  CHECK(with([](auto& o) { o.filters = 1 << 20; }).find("too wide") != std::string::npos);
  CHECK(with([](auto& o) { o.conv_layers = 70; }).find("too wide") != std::string::npos);
  CHECK(with([](auto& o) { o.precision = DataType::kInt16; }).find("--precision int16") == 0);
  CHECK(with([](auto& o) { o.input_type = DataType::kBfloat16; }).find("bf16") !=
        std::string::npos);
}

TEST_CASE("the smallest input that five blocks can halve is 32; odd extents lose a plane") {
  CosmoFlowOptions options;
  options.input = {4, 32, 33, 63};
  const ModelGeometry g = make_cosmoflow(options).geometry({1, 1, 1});
  const auto conv5 = std::find_if(g.tensors().begin(), g.tensors().end(),
                                  [](const TensorGeometry& t) { return t.name == "conv5"; });
  REQUIRE(conv5 != g.tensors().end());
  CHECK(conv5->shape == Shape{512, 1, 1, 1});
  options.input.h = 31;
  CHECK(refused(options).find("too small for 5") != std::string::npos);
}

TEST_CASE("networks are created by name") {
  CHECK(network_names().front() == "cosmoflow");
  const Network& network = network_named("cosmoflow");
  const Model model = network.make(network.defaults());
  CHECK(model.layers().size() == 13);
  CHECK(model.geometry({1, 1, 1}).parameter_count() == 5597604);
  CHECK(model.input_type() == network.input_type);
  CHECK(network.make_loss(network.defaults(), {4, 1, 1, 1})->target_shape() == Shape{4, 1, 1, 1});
  CHECK(refusal([] { network_named("resnet"); }).find("'resnet'") != std::string::npos);
}

}  // namespace
}  // namespace halomesh
