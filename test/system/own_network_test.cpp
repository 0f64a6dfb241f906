// SPDX-License-Identifier: Apache-2.0
// A network from an ONNX file on several meshes: its outputs against sums in double, layer by
// layer.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "test/harness/onnx_bytes.hpp"
#include "test/system/curve.hpp"
#include "test/system/scene.hpp"

namespace halomesh::test {
namespace {

using namespace onnx_bytes;  // NOLINT: the words of a file
using Field = std::vector<double>;

constexpr std::int64_t kD = 7, kH = 6, kW = 5, kSamples = 2;
constexpr std::int64_t kVoxels = kD * kH * kW;

/// The values of onnx_bytes::weights().
double weight(std::int64_t index, double mean = 0) {
  return mean + 0.01 * static_cast<double>(index * 37 % 101 - 50);
}

/// A convolution of 3x3x3 with zeros around its input.
Field convolved(const Field& x, std::int64_t in, std::int64_t out, bool bias) {
  Field y(static_cast<std::size_t>(out * kVoxels));
  for (std::int64_t at = 0; at < out * kVoxels; ++at) {
    const std::int64_t o = at / kVoxels, d = at / (kH * kW) % kD, h = at / kW % kH, w = at % kW;
    double sum = bias ? weight(o) : 0;
    for (std::int64_t tap = 0; tap < in * 27; ++tap) {
      const std::int64_t i = tap / 27, z = d + tap / 9 % 3 - 1, v = h + tap / 3 % 3 - 1,
                         u = w + tap % 3 - 1;
      if (z >= 0 && z < kD && v >= 0 && v < kH && u >= 0 && u < kW)
        sum += weight(o * in * 27 + tap) *
               x[static_cast<std::size_t>(((i * kD + z) * kH + v) * kW + u)];
    }
    y[static_cast<std::size_t>(at)] = sum;
  }
  return y;
}

/// Instance norm with scale and offset, then a leaky rectifier of slope 0.1.
void normalize(Field& x, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    double* const values = x.data() + c * kVoxels;
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < kVoxels; ++i) mean += values[i] / kVoxels;
    for (std::int64_t i = 0; i < kVoxels; ++i) variance += std::pow(values[i] - mean, 2) / kVoxels;
    for (std::int64_t i = 0; i < kVoxels; ++i) {
      const double y = weight(c, 1) * (values[i] - mean) / std::sqrt(variance + 1e-5) + weight(c);
      values[i] = y > 0 ? y : 0.1 * y;
    }
  }
}

/// The bytes of a .npy file of fp32 values.
std::string npy(const std::string& shape, const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()),
               values.size() * sizeof(float));  // NOLINT
  return bytes;
}

std::string small_network() {
  return model(graph_input("x", {1, 2, kD, kH, kW}) + convolution("first", "x", "a", 2, 4, true) +
               initializer(weights("norm.weight", {4}, 1)) +
               initializer(weights("norm.bias", {4})) +
               node("InstanceNormalization", {"a", "norm.weight", "norm.bias"}, {"b"}) +
               node("LeakyRelu", {"b"}, {"c"}, real("alpha", 0.1F)) +
               convolution("last", "c", "y", 4, 3) + graph_output("y"));
}

/// A U-Net of two levels with batch norms and a head on each, for volumes of 16^3 and three
/// classes.
std::string small_unet_file() {
  const auto norm = [](const std::string& name, std::int64_t channels) {
    std::string all;
    for (const auto& [what, mean] :
         {std::pair{".weight", 1.0F}, {".bias", 0.0F}, {".mean", 0.0F}, {".variance", 1.0F}})
      all += initializer(weights(name + what, {channels}, mean));
    return all;
  };
  const auto block = [&](const std::string& name, const std::string& from, const std::string& to,
                         std::int64_t in, std::int64_t out) {
    return convolution(name, from, name + "_c", in, out) + norm(name + ".norm", out) +
           node("BatchNormalization",
                {name + "_c", name + ".norm.weight", name + ".norm.bias", name + ".norm.mean",
                 name + ".norm.variance"},
                {name + "_n"}) +
           node("Relu", {name + "_n"}, {to});
  };
  const std::string two = integers("kernel_shape", {2, 2, 2}) + integers("strides", {2, 2, 2});
  return model(graph_input("x", {1, 1, 16, 16, 16}) + block("down", "x", "a", 1, 4) +
               node("MaxPool", {"a"}, {"b"}, two) + block("low", "b", "c", 4, 8) +
               initializer(weights("up.weight", {8, 4, 2, 2, 2})) +
               node("ConvTranspose", {"c", "up.weight"}, {"d"}, two) +
               node("Concat", {"a", "d"}, {"e"}, integer("axis", 1)) +
               convolution("head", "e", "f", 8, 3, true) +
               node("Softmax", {"f"}, {"y"}, integer("axis", 1)) +
               convolution("low_head", "c", "z", 8, 3, true) + graph_output("y") +
               graph_output("z"));
}

void put(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_SUITE("own network") {
  TEST_CASE("the outputs of a file's network are those of its definition on every mesh") {
    const fs::path home = workshop().fresh("own-network");
    fs::create_directories(home);
    put(home / "net.onnx", small_network());
    std::vector<float> x(kSamples * 2 * kVoxels);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i)));
    put(home / "x.npy", npy("(2, 2, 7, 6, 5)", x));
    Field expected;
    for (std::int64_t n = 0; n < kSamples; ++n) {
      const auto begin = x.begin() + n * 2 * kVoxels;
      Field y = convolved(Field(begin, begin + 2 * kVoxels), 2, 4, true);
      normalize(y, 4);
      y = convolved(y, 4, 3, false);
      expected.insert(expected.end(), y.begin(), y.end());
    }
    const std::vector<std::pair<int, std::string>> meshes{
        {1, "1x1x1"}, {2, "2x1x1"}, {4, "2x2x1"}, {6, "3x2x1"}, {2, "1x1x1"}};
    for (const auto& mesh : meshes) {
      CAPTURE(mesh.second);
      const fs::path out = home / "y.npy";
      const Outcome outcome = run(mesh.first, "predict",
                                  {{"network", (home / "net.onnx").string()},
                                   {"data", (home / "x.npy").string()},
                                   {"out", out.string()},
                                   {"parts", mesh.second}});
      CAPTURE(outcome.text);
      REQUIRE(outcome.exit_code == 0);
      const std::string bytes = read_file(out);
      REQUIRE(bytes.size() == 128 + expected.size() * sizeof(float));
      CHECK(bytes.find("(2, 3, 7, 6, 5)") != std::string::npos);
      std::vector<float> y(expected.size());
      std::memcpy(y.data(), bytes.data() + 128, y.size() * sizeof(float));
      for (std::size_t i = 0; i < y.size(); ++i)
        REQUIRE(std::abs(static_cast<double>(y[i]) - expected[i]) < 2e-6);
    }
  }

  TEST_CASE("a file that no network is made of ends predict, plan and train with one message") {
    const fs::path home = workshop().fresh("own-network-bad");
    fs::create_directories(home);
    put(home / "net.onnx", model(graph_input("x", {1, 2, kD, kH, kW}) +
                                 node("Einsum", {"x"}, {"y"}) + graph_output("y")));
    const Outcome outcome = run(0, "plan", {{"network", (home / "net.onnx").string()}});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.text.find("Einsum node_y: this operator is not supported") != std::string::npos);
  }

  TEST_CASE("a file's network trains on any mesh, and its checkpoints need no second file") {
    const fs::path home = workshop().fresh("own-network-train");
    fs::create_directories(home);
    Scene scene;
    scene.data = home / "volumes";
    REQUIRE(run(0, "synth",
                {{"kind", "volumes"},
                 {"input", "16x16x16x1"},
                 {"train", "8"},
                 {"validation", "4"},
                 {"out", scene.data.string()}})
                .exit_code == 0);
    scene.options = {{"network", (home / "net.onnx").string()},
                     {"output-weights", "1,0.5"},
                     {"batch", "4"},
                     {"epochs", "2"},
                     {"lr", "0.01"},
                     {"seed", "3"}};
    const auto train = [&](const char* name, int ranks, const char* parts, Arguments more) {
      put(home / "net.onnx", small_unet_file());
      Scene one = scene;
      one.out = home / name;
      one.ranks = ranks;
      one.options["parts"] = parts;
      for (const auto& [option, value] : more) one.options[option] = value;
      const Outcome outcome = one.train();
      CAPTURE(outcome.text);
      REQUIRE(outcome.exit_code == 0);
      fs::remove(home / "net.onnx");
      return one;
    };
    const Scene whole = train("whole", 1, "1x1x1", {});
    const Scene cut = train("cut", 6, "3x2x1", {{"batch", "4"}});
    const auto a = read_curve(whole.out), b = read_curve(cut.out);
    REQUIRE(a.size() == 4);
    REQUIRE(b.size() == a.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i].loss - b[i].loss) < 1e-5);
    CHECK(a.back().loss < a.front().loss);

    Scene resumed = train("resumed", 2, "2x1x1", {{"epochs", "1"}});
    resumed.options.erase("network");
    resumed.options["model"] = "onnx";
    resumed.options["epochs"] = "2";
    const Outcome again = resumed.train();
    CAPTURE(again.text);
    REQUIRE(again.exit_code == 0);
    const auto c = read_curve(resumed.out);
    REQUIRE(c.size() == a.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i].loss - c[i].loss) < 1e-5);

    const Outcome judged = run(
        2, "eval",
        {{"checkpoint", whole.out.string()}, {"data", scene.data.string()}, {"parts", "1x2x1"}});
    CAPTURE(judged.text);
    CHECK(judged.exit_code == 0);
    CHECK(judged.text.find("Dice") != std::string::npos);
    const Outcome predicted = run(2, "predict",
                                  {{"checkpoint", whole.out.string()},
                                   {"data", scene.data.string()},
                                   {"parts", "1x1x2"},
                                   {"out", (home / "classes.h5").string()}});
    CAPTURE(predicted.text);
    CHECK(predicted.exit_code == 0);
  }

  TEST_CASE("plan tells the layers and parameters of a file's network") {
    const fs::path home = workshop().fresh("own-network-plan");
    fs::create_directories(home);
    put(home / "net.onnx", small_network());
    const Outcome outcome = run(0, "plan",
                                {{"network", (home / "net.onnx").string()},
                                 {"parts", "2x2x1"},
                                 {"json", (home / "plan.json").string()}});
    CAPTURE(outcome.text);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.text.find("first") != std::string::npos);
    CHECK(read_file(home / "plan.json")
              .find("\"parameters\": " + std::to_string(4 * 2 * 27 + 4 + 8 + 3 * 4 * 27)) !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace halomesh::test
