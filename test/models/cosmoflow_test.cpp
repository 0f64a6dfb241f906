// CosmoFlow: parameters, names and the geometry of the published meshes; options that make none.
#include "models/cosmoflow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "error.hpp"
#include "models/registry.hpp"

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

TEST_CASE("layers in their order, by name") {
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

TEST_CASE("128^3 on 4x4x1 parts: the halo of an interior part") {
  const Model model = make_cosmoflow({});
  const ModelGeometry g = model.geometry({4, 4, 1});
  constexpr std::int64_t part = 5, float_bytes = 4;
  // One plane of each cut axis and the edge between them, of each convolution's input:
  // (2 s + 1) W C floats for a block of s x s rows of width W.
  const std::vector<std::int64_t> expected = {133120, 270336, 139264, 73728, 40960};
  std::vector<std::int64_t> received;
  for (std::size_t t = 0; t < g.tensors().size(); ++t)
    if (const std::int64_t volume = g.tensors()[t].distribute.received_volume(part); volume > 0)
      received.push_back(volume * float_bytes);
  CHECK(received == expected);
  std::int64_t total = 0;
  for (const std::int64_t bytes : received) total += bytes;
  CHECK(total == 657408);
  CHECK(g.tensors()[0].distribute.received_volume(part) * float_bytes == 133120);
  CHECK(total - 133120 == 524288);
}

TEST_CASE("128^3 on 4x4x1 parts: holders of parameters") {
  const ModelGeometry g = make_cosmoflow({}).geometry({4, 4, 1});
  for (const std::string name : {"conv1", "conv2", "conv3", "conv4", "conv5"})
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
    held += fc1.holders[i].slice.volume() * fc1.geometry.out;
    for (std::size_t j = 0; j < i; ++j)
      CHECK(intersect(fc1.holders[i].slice, fc1.holders[j].slice).empty());
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

TEST_CASE("options that make no network are refused by name") {
  const auto with = [](auto set) {
    CosmoFlowOptions options;
    set(options);
    return refused(options);
  };
  CHECK(with([](auto& o) { o.kernel = 0; }).find("--kernel 0") == 0);
  CHECK(with([](auto& o) { o.filters = 0; }).find("--filters 0") == 0);
  CHECK(with([](auto& o) { o.conv_layers = 0; }).find("--conv-layers 0") == 0);
  CHECK(with([](auto& o) { o.targets = -1; }).find("--targets -1") == 0);
  CHECK(with([](auto& o) { o.fc = {128, 0}; }).find("--fc 0") == 0);
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

TEST_CASE("networks are known by name") {
  CHECK(network_names() == std::vector<std::string>{"cosmoflow"});
  CHECK(make_network("cosmoflow", {}).layers().size() == 13);
  CHECK(refusal([] { make_network("resnet", {}); }).find("'resnet'") != std::string::npos);
}

}  // namespace
}  // namespace halomesh
