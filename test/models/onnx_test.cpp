// SPDX-License-Identifier: Apache-2.0
// Networks from ONNX files: what is understood, what is refused, and files that are damaged or
// hostile.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "error.hpp"
#include "models/onnx/imported.hpp"
#include "models/onnx/writer.hpp"
#include "models/registry.hpp"
#include "src/nn/layers/dropout.hpp"
#include "test/harness/onnx_bytes.hpp"

namespace halomesh {
namespace {

using namespace onnx_bytes;  // NOLINT: the words of a file

ImportedNetwork import_bytes(const std::string& bytes, const ImportSettings& settings = {}) {
  return import_onnx(FileOf(bytes).name(), settings);
}

/// The message and hint with which a file is refused; empty if it is not.
std::string refusal(const std::string& bytes) {
  try {
    import_bytes(bytes);
  } catch (const Error& error) {
    return std::string(error.what()) + '\n' + error.hint();
  }
  return {};
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kInput = graph_input("x", {1, 2, 8, 7, 9});

/// Convolution, instance norm and leaky rectifier; then a convolution to two channels.
std::string small_graph() {
  return kInput + convolution("first", "x", "a", 2, 4, true) +
         initializer(weights("norm.weight", {4}, 1)) + initializer(weights("norm.bias", {4})) +
         node("InstanceNormalization", {"a", "norm.weight", "norm.bias"}, {"b"}) +
         node("LeakyRelu", {"b"}, {"c"}, real("alpha", 0.1F)) +
         convolution("last", "c", "y", 4, 2) + graph_output("y");
}

std::vector<std::string> operators_of(const ImportedNetwork& network) {
  std::vector<std::string> all;
  for (const ImportedLayer& layer : network.layers)
    if (!layer.operators.empty()) all.push_back(layer.operators);
  return all;
}

TEST_CASE("a file's nodes become layers, named after their parameters") {
  const ImportedNetwork network = import_bytes(model(small_graph()));
  CHECK(operators_of(network) ==
        std::vector<std::string>{"Conv", "InstanceNormalization + LeakyRelu", "Conv"});
  std::vector<std::string> names;
  for (const ImportedLayer& layer : network.layers) names.push_back(layer.name);
  CHECK(names == std::vector<std::string>{"first", "norm_moments", "norm", "last"});
  CHECK(network.model.input() == Shape{2, 8, 7, 9});
  CHECK(network.layers.back().shape == Shape{2, 8, 7, 9});
  std::int64_t parameters = 0;
  for (const ImportedLayer& layer : network.layers) parameters += layer.parameters;
  CHECK(parameters == 4 * 2 * 27 + 4 + 8 + 2 * 4 * 27);
  CHECK(network.outputs == std::vector<std::string>{"y"});
}

TEST_CASE("the extents of a sample may be others than those of the file") {
  ImportSettings settings;
  settings.input = {2, 16, 5, 4};
  CHECK(import_bytes(model(small_graph()), settings).layers.back().shape == Shape{2, 16, 5, 4});
}

TEST_CASE("outputs of several levels are computed together, the first by default in predictions") {
  const std::string two = integers("kernel_shape", {2, 2, 2}) + integers("strides", {2, 2, 2});
  const std::string graph =
      graph_input("x", {1, 2, 8, 4, 6}) + convolution("a", "x", "y", 2, 3) +
      node("MaxPool", {"y"}, {"b"}, two) + convolution("c", "b", "z", 3, 3) +
      node("MaxPool", {"z"}, {"d"},
           integers("kernel_shape", {1, 2, 3}) + integers("strides", {1, 2, 3})) +
      convolution("e", "d", "low", 3, 3) + graph_output("y") + graph_output("z") +
      graph_output("low");
  ImportSettings settings;
  CHECK(import_bytes(model(graph), settings).layers.size() == 1);
  settings.weights.emplace();
  const ImportedNetwork network = import_bytes(model(graph), settings);
  CHECK(network.computed == std::vector<std::string>{"y", "z"});
  REQUIRE(network.heads.size() == 2);
  CHECK(network.heads[0].weight == doctest::Approx(2.0 / 3));
  CHECK(network.heads[1].weight == doctest::Approx(1.0 / 3));
  CHECK(network.heads[1].factor == Spatial{2, 2, 2});
  CHECK(network.layers.back().shape == Shape{6, 8, 4, 6});
  settings.weights = {1, 1, 2};
  CHECK(import_bytes(model(graph), settings).heads[2].factor == Spatial{2, 4, 6});
  settings.weights = {1, 1};
  CHECK_THROWS_WITH_AS(import_bytes(model(graph), settings), doctest::Contains("has 3 outputs:"),
                       Error);
}

TEST_CASE("values of parameters are those of the file, also where it has them transposed") {
  const std::string graph =
      kInput +
      node("ReduceMean", {"x"}, {"mean"}, integers("axes", {2, 3, 4}) + integer("keepdims", 0)) +
      initializer(tensor<float>("w", {2, 3}, {1, 2, 3, 4, 5, 6})) +
      node("MatMul", {"mean", "w"}, {"product"}) + initializer(tensor<float>("b", {3}, {7, 8, 9})) +
      node("Add", {"product", "b"}, {"y"}) + graph_output("y");
  const FileOf file(model(graph, 17));
  const ImportedNetwork network = import_onnx(file.name(), {});
  REQUIRE(network.parameters.size() == 2);
  const auto values = onnx_values(file.name(), network.parameters);
  CHECK(values[0] == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(values[1] == std::vector<float>{7, 8, 9});
  CHECK(network.layers.back().shape == Shape{3, 1, 1, 1});
}

TEST_CASE("a dense layer reads a weight that the file has transposed") {
  std::vector<float> weight(2 * 8 * 7 * 9 * 3);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i);
  const std::string graph = kInput + node("Flatten", {"x"}, {"flat"}) +
                            initializer(tensor<float>("w", {2 * 8 * 7 * 9, 3}, weight)) +
                            initializer(weights("b", {3})) +
                            node("Gemm", {"flat", "w", "b"}, {"y"}) + graph_output("y");
  const FileOf file(model(graph));
  const auto values = onnx_values(file.name(), import_onnx(file.name(), {}).parameters);
  // Output 1 of channel 1 at the first voxel, in the order out,d,h,w,c.
  CHECK(values.at(0).at(2 * 8 * 7 * 9 + 1) == 8 * 7 * 9 * 3 + 1);
}

TEST_CASE("equal initializers that an exporter merged are parameters of their own") {
  std::string graph = kInput + convolution("conv", "x", "a", 2, 2) +
                      initializer(weights("one.weight", {2}, 1)) +
                      initializer(weights("one.bias", {2}));
  for (const auto& [from, to] : {std::pair{"a", "b"}, std::pair{"b", "y"}})
    graph += node("InstanceNormalization", {from, "one.weight", "one.bias"}, {to});
  const ImportedNetwork network = import_bytes(model(graph + graph_output("y")));
  CHECK(network.parameters.size() == 5);
  std::int64_t parameters = 0;
  for (const ImportedLayer& layer : network.layers) parameters += layer.parameters;
  CHECK(parameters == 2 * 2 * 27 + 2 * 4);
  CHECK(network.layers.back().name == "one_2");
}

TEST_CASE("a group norm is found in what older exporters write for it") {
  const std::string graph =
      graph_input("x", {1, 4, 4, 4, 4}) +
      initializer(tensor<std::int64_t>("groups", {3}, {0, 2, -1})) +
      initializer(tensor<std::int64_t>("back", {5}, {1, 4, 4, 4, 4})) +
      initializer(tensor<float>("ones", {2}, {1, 1})) +
      initializer(tensor<float>("zeros", {2}, {0, 0})) +
      initializer(weights("scale", {4, 1, 1, 1}, 1)) +
      initializer(weights("offset", {4, 1, 1, 1})) + convolution("conv", "x", "a", 4, 4) +
      node("Reshape", {"a", "groups"}, {"b"}) +
      node("InstanceNormalization", {"b", "ones", "zeros"}, {"c"}) +
      node("Reshape", {"c", "back"}, {"d"}) + node("Mul", {"d", "scale"}, {"e"}) +
      node("Add", {"e", "offset"}, {"f"}) + node("Relu", {"f"}, {"y"}) + graph_output("y");
  const ImportedNetwork network = import_bytes(model(graph, 18));
  CHECK(operators_of(network) ==
        std::vector<std::string>{"Conv", "InstanceNormalization + Mul + Add + Relu"});
  CHECK(network.layers.back().parameters == 8);
  REQUIRE(network.parameters.size() == 3);
  CHECK(network.parameters[1].tensor == "scale");
  CHECK(network.parameters[2].tensor == "offset");
}

TEST_CASE("a zero bias of a wrong shape is no bias") {
  const std::string graph = kInput + initializer(weights("conv.weight", {4, 2, 3, 3, 3})) +
                            initializer(tensor<std::int64_t>("shape", {2}, {4, 2})) +
                            initializer(tensor<float>("zero", {}, {0})) +
                            node("Expand", {"zero", "shape"}, {"bias"}) +
                            node("Conv", {"x", "conv.weight", "bias"}, {"y"}) + graph_output("y");
  CHECK(import_bytes(model(graph)).layers.back().parameters == 4 * 2 * 27);
}

TEST_CASE("a transposed convolution may write planes that no input reaches") {
  const std::string graph =
      kInput + initializer(weights("up.weight", {2, 3, 3, 3, 3})) +
      node("ConvTranspose", {"x", "up.weight"}, {"y"},
           integers("strides", {3, 2, 1}) + integers("output_shape", {26, 16, 11})) +
      graph_output("y");
  for (const int opset : {11, 28})
    CHECK(import_bytes(model(graph, opset)).layers.back().shape == Shape{3, 26, 16, 11});
}

TEST_CASE("a maximum over all of space is one of any extents") {
  const std::string axes = integers("axes", {2, 3, 4});
  const std::string whole = integers("kernel_shape", {8, 7, 9});
  for (const auto& maximum :
       {std::pair{"GlobalMaxPool", std::string()}, {"ReduceMax", axes}, {"MaxPool", whole}}) {
    CAPTURE(maximum.first);
    const std::string pool = node(maximum.first, {"x"}, {"y"}, maximum.second);
    const auto network = import_bytes(model(kInput + pool + graph_output("y"), 17));
    CHECK(network.layers.back().shape == Shape{2, 1, 1, 1});
    CHECK(network.layers.size() == 2);
  }
  CHECK(contains(refusal(model(kInput + node("ReduceMax", {"x"}, {"y"}, integers("axes", {2, 3})) +
                                   graph_output("y"),
                               17)),
                 "reduce all axes of space"));
}

TEST_CASE("moving averages of a batch norm move by the file's momentum") {
  const auto graph = [](float momentum) {
    std::string all = kInput;
    for (const char* name : {"norm.weight", "norm.bias", "mean", "variance"})
      all += initializer(weights(name, {2}, 1));
    return model(all +
                 node("BatchNormalization", {"x", "norm.weight", "norm.bias", "mean", "variance"},
                      {"y"}, real("momentum", momentum)) +
                 graph_output("y"));
  };
  const ImportedNetwork network = import_bytes(graph(0.75F), {.batch_norm = 2});
  const Layer& norm = *network.model.layers().back().layer;
  const std::vector<Shape> src{{2, 8, 7, 9}, {4, 1, 1, 1}};
  const auto parameters = norm.parameters(src);
  REQUIRE(parameters.size() == 4);
  for (const std::size_t p : {2U, 3U}) CHECK(parameters[p].moving_average == 0.25F);
  CHECK(contains(refusal(graph(1)), "cumulative averages are not supported"));
}

TEST_CASE("only a softmax over channels is left to the loss") {
  const auto ending = [](std::int64_t axis, std::int64_t opset) {
    return model(kInput + convolution("conv", "x", "a", 2, 2) +
                     node("Softmax", {"a"}, {"y"}, integer("axis", axis)) + graph_output("y"),
                 opset);
  };
  CHECK(import_bytes(ending(1, 13), {.ends_in_scores = true}).notes.size() == 1);
  CHECK_THROWS_AS(import_bytes(ending(2, 13), {.ends_in_scores = true}), Error);
  CHECK_THROWS_AS(import_bytes(ending(1, 11), {.ends_in_scores = true}), Error);
}

TEST_CASE("a softmax or sigmoid of the outputs of a sample is left to the loss of its classes") {
  const auto ending = [](const std::string& name, const std::string& attributes, int opset) {
    return model(kInput + node("GlobalAveragePool", {"x"}, {"a"}) +
                     node("Flatten", {"a"}, {"flat"}, integer("axis", 1)) +
                     node(name, {"flat"}, {"y"}, attributes) + graph_output("y"),
                 opset);
  };
  for (const auto& [axis, opset] : {std::pair{1, 11}, {1, 13}, {-1, 13}}) {
    const std::string softmax = ending("Softmax", integer("axis", axis), opset);
    const ImportedNetwork left = import_bytes(softmax, {.ends_in_softmax = true});
    CHECK(left.notes.size() == 1);
    CHECK(import_bytes(softmax, {.ends_in_scores = true}).layers.size() == left.layers.size() + 1);
    CHECK(import_bytes(softmax, {.ends_in_sigmoid = true}).layers.size() == left.layers.size() + 1);
  }
  const std::string sigmoid = ending("Sigmoid", "", 13);
  CHECK(import_bytes(sigmoid, {.ends_in_sigmoid = true}).layers.size() + 1 ==
        import_bytes(sigmoid, {.ends_in_scores = true}).layers.size());
}

TEST_CASE("one channel of voxels is the score of a class beside the background") {
  for (const bool squashed : {true, false}) {
    const std::string file =
        model(kInput + convolution("conv", "x", squashed ? "a" : "y", 2, 1) +
              (squashed ? node("Sigmoid", {"a"}, {"y"}) : std::string()) + graph_output("y"));
    const ImportedNetwork scores = import_bytes(file, {.ends_in_scores = true});
    CHECK(scores.layers.back().shape == Shape{2, 8, 7, 9});
    CHECK(scores.heads.front().channels == 2);
    CHECK(import_bytes(file, {}).layers.back().shape == Shape{1, 8, 7, 9});
  }
  const std::string wide = model(kInput + convolution("conv", "x", "y", 2, 3) + graph_output("y"));
  CHECK(import_bytes(wide, {.ends_in_scores = true}).layers.size() == 1);
}

TEST_CASE("samples that do not fit a file are told with those that do") {
  const std::string flat =
      model(kInput + convolution("conv", "x", "a", 2, 2) +
            initializer(tensor<std::int64_t>("shape", {2}, {1, 2 * 8 * 7 * 9})) +
            node("Reshape", {"a", "shape"}, {"y"}) + graph_output("y"));
  const auto told = [&](const Shape& input) {
    try {
      import_bytes(flat, {.input = input});
    } catch (const Error& error) {
      return fmt::format("{}; {}", error.what(), error.hint());
    }
    return std::string();
  };
  CHECK(told({2, 8, 7, 9}).empty());
  CHECK(contains(told({3, 8, 7, 9}),
                 "reads samples of 2 channels, not of 3; give samples of 8x7x9x2"));
  CHECK(contains(told({2, 8, 8, 8}), "not supported for samples of 8x8x8x2 instead of 8x7x9x2"));
  CHECK(contains(told({2, 8, 8, 8}), "give samples of 8x7x9x2, or export"));
}

TEST_CASE("integers are computed beforehand, up to the end of a slice and backwards") {
  const std::string graph =
      kInput + convolution("conv", "x", "a", 2, 2) + node("Shape", {"a"}, {"shape"}) +
      initializer(tensor<std::int64_t>("first", {1}, {-1})) +
      initializer(tensor<std::int64_t>("last", {1}, {std::numeric_limits<std::int64_t>::min()})) +
      initializer(tensor<std::int64_t>("axis", {1}, {0})) +
      initializer(tensor<std::int64_t>("step", {1}, {-1})) +
      node("Slice", {"shape", "first", "last", "axis", "step"}, {"reversed"}) +
      node("Slice", {"reversed", "first", "last", "axis", "step"}, {"again"}) +
      node("Reshape", {"a", "again"}, {"y"}) + graph_output("y");
  CHECK(import_bytes(model(graph)).layers.back().shape == Shape{2, 8, 7, 9});
}

TEST_CASE("all nodes that are not supported are listed in one message") {
  const std::string graph = kInput + node("Einsum", {"x"}, {"a"}) +
                            convolution("conv", "a", "b", 2, 2) + node("NonZero", {"b"}, {"c"}) +
                            node("Einsum", {"c"}, {"y"}) + graph_output("y");
  const std::string message = refusal(model(graph));
  CHECK(contains(message, "3 of 4 nodes are not supported (opset 20"));
  CHECK(contains(message, "Einsum node_a: this operator is not supported"));
  CHECK(contains(message, "NonZero node_c"));
  CHECK(contains(message, "Einsum node_y"));
}

TEST_CASE("files that no network can be read from are refused with a reason") {
  const auto check = [](const std::string& bytes, const std::string& reason) {
    CAPTURE(reason);
    const std::string message = refusal(bytes);
    CAPTURE(message);
    CHECK(contains(message, reason));
  };
  check("", "has no graph");
  check("no ONNX file at all", "is not an ONNX file");
  check(model(small_graph(), 6), "operators of opset 6");
  check(model(small_graph(), 99), "operators of opset 99");
  check(model(kInput + graph_input("z", {1}) + node("Add", {"x", "z"}, {"y"}) + graph_output("y")),
        "2 inputs: x, z");
  check(model(graph_input("x", {1, 2, 8, 8}) + node("Relu", {"x"}, {"y"}) + graph_output("y")),
        "4 dimensions");
  check(model(graph_input("x", {1, 2, 8, 8, std::int64_t{1} << 40}) + node("Relu", {"x"}, {"y"}) +
              graph_output("y")),
        "an extent of");
  // Each waits for the other: a circle.
  check(model(kInput + node("Add", {"x", "b"}, {"a"}) + node("Relu", {"a"}, {"b"}) +
              graph_output("b")),
        "is not computed before it");
  check(model(kInput + node("Relu", {"x"}, {"a"}) + node("Relu", {"x"}, {"a"}) + graph_output("a")),
        "two nodes compute a");
  check(model(kInput + initializer(weights("w", {2}) + whole(1, std::int64_t{1} << 62)) +
              node("Relu", {"x"}, {"y"}) + graph_output("y")),
        "has a dimension of");
  check(model(kInput + initializer(tensor<float>("w", {4, 2, 3, 3, 3}, {1, 2})) +
              node("Conv", {"x", "w"}, {"y"}) + graph_output("y")),
        "");
  check(model(kInput + initializer(weights("w", {4, 3, 3, 3, 3})) +
              node("Conv", {"x", "w"}, {"y"}) + graph_output("y")),
        "a weight of 4x3x3x3x3");
}

TEST_CASE("a file cut anywhere is refused") {
  const std::string whole_file = model(small_graph());
  std::size_t refused = 0;
  for (std::size_t length = 0; length < whole_file.size(); length += 7)
    if (!refusal(whole_file.substr(0, length)).empty()) ++refused;
  CHECK(refused == (whole_file.size() + 6) / 7);
}

TEST_CASE("weights beside the file are read from its directory alone") {
  const auto graph_with = [](const std::string& location, const std::string& offset,
                             const std::string& length) {
    return model(kInput + initializer(external("w", {4, 2, 1, 1, 1}, location, offset, length)) +
                 node("Conv", {"x", "w"}, {"y"}) + graph_output("y"));
  };
  const std::string beside = "halomesh-weights-" + std::to_string(::getpid());
  const auto path = std::filesystem::temp_directory_path() / beside;
  std::ofstream(path, std::ios::binary) << std::string(16, '\0') << std::string(32, '\x3f');
  const auto values = [&](const std::string& location, const std::string& offset,
                          const std::string& length) -> std::string {
    const FileOf file(graph_with(location, offset, length));
    try {
      const auto all = onnx_values(file.name(), import_onnx(file.name(), {}).parameters);
      return all.at(0) == std::vector<float>(8, 0.74705881F) ? "read" : "other values";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(values(beside, "16", "32") == "read");
  CHECK(values(beside, "16", "") == "read");
  for (const auto& location : Names{"../" + beside, "/etc/passwd", "a/../../" + beside, ""})
    CHECK(contains(values(location, "", ""), "has its values in '"));
  CHECK(contains(values(beside + "x", "", ""), "is no file"));
  CHECK(contains(values(beside, "20", "32"), "32 bytes at 20"));
  CHECK(contains(values(beside, "99999999999999999999", "32"), "is not a number of bytes"));
  CHECK(contains(values(beside, "-16", "32"), "is not a number of bytes"));
  std::filesystem::remove(path);
}

TEST_CASE("an embedded graph is the same network, without values of parameters") {
  const FileOf file(model(small_graph()));
  const std::string graph = embedded_graph(file.name());
  CHECK(graph.size() < std::filesystem::file_size(file.name()));
  CHECK(graph.find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_:") ==
        std::string::npos);
  const ImportedNetwork network = import_onnx(graph, {});
  CHECK(operators_of(network) == operators_of(import_onnx(file.name(), {})));
  CHECK(embedded_graph(graph) == graph);
  CHECK_THROWS_WITH_AS(onnx_values(graph, network.parameters), doctest::Contains("has no values"),
                       Error);
}

TEST_CASE("an ONNX file is a network of the command line") {
  const FileOf file(model(small_graph()));
  const Network& network = network_named("onnx");
  NetworkSettings settings = network.defaults();
  settings.values["network"] = file.name();
  settings.input = network.own_input(settings);
  CHECK(settings.input == Shape{2, 8, 7, 9});
  const Model built = network.make(settings);
  const ModelGeometry geometry = built.geometry({2, 2, 1});
  Parameters parameters(geometry, 3);
  network.start(settings, parameters);
  const ImportedNetwork imported = import_onnx(file.name(), {});
  const auto values = onnx_values(file.name(), imported.parameters);
  CHECK(parameters.views(0)[1].values[2] == values[1][2]);
}

TEST_CASE("a network is written with its dropouts, and read again with them") {
  const Network& network = network_named("cosmoflow");
  NetworkSettings settings = network.defaults();
  settings.input = {4, 16, 16, 16};
  settings.values["conv-layers"] = std::int64_t{2};
  settings.values["dropout"] = 0.25;
  const Model built = network.make(settings);
  const ModelGeometry geometry = built.geometry({1, 1, 1});
  Parameters parameters(geometry, 0);
  const std::string written = onnx_of(built, [&](std::size_t layer, std::size_t number) {
    return std::span<const float>(parameters.views(layer)[number].values);
  });
  const auto dropouts_of = [](const Model& model) {
    std::vector<std::string> found;
    for (const ModelLayer& each : model.layers())
      if (const auto* const layer = dynamic_cast<const Dropout*>(each.layer.get()))
        found.push_back(fmt::format("{} {}", layer->probability(), layer->drops_channels()));
    return found;
  };
  const ImportedNetwork again = import_bytes(written, {});
  CHECK(dropouts_of(again.model) == dropouts_of(built));
  CHECK(dropouts_of(built) == std::vector<std::string>{"0.25 false", "0.25 false"});
  CHECK(dropouts_of(import_bytes(written, {.dropout = 0}).model).empty());
}

TEST_CASE("--initial random draws what PyTorch's layers begin with") {
  const std::string graph =
      kInput + convolution("conv", "x", "a", 2, 8, true) +
      initializer(weights("norm.weight", {8}, 3)) + initializer(weights("norm.bias", {8}, 2)) +
      node("InstanceNormalization", {"a", "norm.weight", "norm.bias"}, {"b"}) +
      node("Flatten", {"b"}, {"c"}) + initializer(weights("dense.weight", {5, 8 * 8 * 7 * 9})) +
      initializer(weights("dense.bias", {5})) +
      node("Gemm", {"c", "dense.weight", "dense.bias"}, {"y"}, integer("transB", 1)) +
      graph_output("y");
  const FileOf file(model(graph));
  const Network& network = network_named("onnx");
  NetworkSettings settings = network.defaults();
  settings.values["network"] = file.name();
  settings.values["initial"] = std::string("random");
  settings.input = network.own_input(settings);
  const Model built = network.make(settings);
  const ModelGeometry geometry = built.geometry({1, 1, 1});
  Parameters parameters(geometry, 0);
  parameters.initialize(3);
  network.start(settings, parameters);
  const auto check_uniform = [&](std::size_t layer, std::size_t number, double inputs) {
    const std::span<const float> values = parameters.views(layer).at(number).values;
    const double bound = 1 / std::sqrt(inputs);
    double largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(double{value}));
    CHECK(largest <= bound);
    CHECK(largest > 0.4 * bound);
  };
  check_uniform(0, 0, 2 * 27);
  check_uniform(0, 1, 2 * 27);
  check_uniform(3, 0, 8 * 8 * 7 * 9);
  check_uniform(3, 1, 8 * 8 * 7 * 9);
  const std::vector<ParameterView> norm = parameters.views(2);
  for (const float value : norm.at(0).values) CHECK(value == 1);
  for (const float value : norm.at(1).values) CHECK(value == 0);
}

}  // namespace
}  // namespace halomesh
