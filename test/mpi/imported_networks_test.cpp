// SPDX-License-Identifier: Apache-2.0
// Networks from ONNX files, cut over parts: outputs, gradients of the input and of all parameters,
// and running statistics.
//
// The environment variable HALOMESH_NETWORKS names a directory of reference networks, each in a
// directory of its own: net.onnx, and reference.npz with the arrays x, y0, y1, ..., dx and, under
// the names of the file's tensors, gradients of L = the sum over outputs k and their elements i of
// cos(i + k) y_k[i], and running statistics after one pass.
//
// Bounds. PyTorch's own fp32 run of such networks misses fp64 by 2e-6 of the largest output and by
// 9e-5 of the largest gradient of a tensor. Gradients that cancel, such as those of biases before a
// norm, are compared with the largest gradient of all tensors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/onnx/imported.hpp"
#include "test/harness/gradient_probe.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/npz.hpp"
#include "test/harness/onnx_bytes.hpp"
#include "test/harness/skip.hpp"
#include "test/mpi/network_run.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;
using Arrays = std::map<std::string, NpyArray>;

/// The place in n,c,d,h,w order of an element.
std::size_t place_in(const Shape& s, std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h,
                     std::int64_t w) {
  return static_cast<std::size_t>((((n * s.c + c) * s.d + d) * s.h + h) * s.w + w);
}
/// The place of an element that is numbered within its sample in d,h,w,c order.
std::size_t place_of_element(const Shape& s, std::int64_t n, std::int64_t element) {
  const std::int64_t c = element % s.c, w = element / s.c % s.w, h = element / s.c / s.w % s.h;
  return place_in(s, n, c, element / s.c / s.w / s.h, h, w);
}

/// A direction in which input and parameters are moved, of numbers between -1 and 1.
double direction(std::size_t parameter, std::int64_t index) {
  return std::sin(static_cast<double>(parameter) + 1.7 * static_cast<double>(index));
}

/// One output of a network on one mesh, and all of a step's results that this rank has.
class ImportedRun {
 public:
  ImportedRun(const Comm& comm, const PartGrid& grid, const std::string& file,
              const std::string& output, std::size_t number, const NpyArray& x, double shift = 0,
              std::size_t joined = 0)
      : batch_(x.dims[0]),
        probed_(std::make_shared<ProbedGradient>()),
        network_(read(file, output, batch_, joined)),
        model_(with_probe(std::move(network_.model), probed_)) {
    const ModelGeometry geometry = model_.geometry(grid);
    const auto values = onnx_values(file, network_.parameters);
    for (const ParameterPlacement& placement : geometry.parameters()) {
      parameters_.emplace_back(static_cast<std::size_t>(placement.geometry.volume()),
                               placement.geometry.initial.constant);
      stored_.push_back(nullptr);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (const ImportedParameter& p = network_.parameters[i];
            p.layer == placement.layer_name && p.number == placement.number) {
          parameters_.back() = values[i];
          stored_.back() = &p;
        }
    }
    const Shape in = geometry.tensors().front().shape, out = geometry.tensors().back().shape;
    const auto parameter = [this, shift](std::size_t placement, std::int64_t i) {
      return parameters_[placement][static_cast<std::size_t>(i)] +
             static_cast<float>(shift * direction(placement + 1, i));
    };
    const auto input = [&x, in, shift](std::int64_t n, std::int64_t i) {
      const std::size_t place = place_of_element(in, n, i);
      return static_cast<float>(x.values[place] +
                                shift * direction(0, static_cast<std::int64_t>(place)));
    };
    const auto output_diff = [this, number, out](std::int64_t n, std::int64_t i) {
      const std::int64_t c = i % out.c, w = i / out.c % out.w, h = i / out.c / out.w % out.h;
      const HeadPlace place = place_in_head(out, n, c, i / out.c / out.w / out.h, h, w);
      return place.is_first
                 ? static_cast<float>(std::cos(static_cast<double>(place.at + number + place.head)))
                 : 0.0F;
    };
    const StepValues step{parameter, input, output_diff};
    run_ = std::make_unique<NetworkRun>(comm, MeshShape{1, grid}, std::move(model_), batch_, step);
    run_->step();
  }

  /// Where the network's output has an element: the head, its place there in n,c,d,h,w order, and
  /// whether it is the first of the equal ones.
  struct HeadPlace {
    std::size_t head = 0, at = 0;
    bool is_first = true;
  };
  HeadPlace place_in_head(const Shape& whole, std::int64_t n, std::int64_t c, std::int64_t d,
                          std::int64_t h, std::int64_t w) const {
    std::size_t head = 0;
    for (; c >= network_.heads[head].channels; ++head) c -= network_.heads[head].channels;
    const auto& [channels, f, weight] = network_.heads[head];
    const Shape level{channels, whole.d / f[0], whole.h / f[1], whole.w / f[2]};
    return {head, place_in(level, n, c, d / f[0], h / f[1], w / f[2]),
            d % f[0] == 0 && h % f[1] == 0 && w % f[2] == 0};
  }
  std::size_t heads() const { return network_.heads.size(); }
  NetworkRun& run() { return *run_; }
  ProbedGradient& input_gradient() { return *probed_; }
  /// The parameter of the file at this placement; null if the file has none.
  const ImportedParameter* stored(std::size_t placement) const { return stored_[placement]; }

  static ImportedNetwork read(const std::string& file, const std::string& output,
                              std::int64_t batch, std::size_t joined = 0) {
    ImportSettings settings;
    if (joined > 0) settings.weights.emplace(joined, 1.0);
    settings.output = output;
    settings.batch_norm = batch;
    settings.dropout = 0;
    return import_onnx(file, settings);
  }

 private:
  std::int64_t batch_;
  std::shared_ptr<ProbedGradient> probed_;
  ImportedNetwork network_;
  Model model_;
  std::vector<std::vector<float>> parameters_;
  std::vector<const ImportedParameter*> stored_;
  std::unique_ptr<NetworkRun> run_;
};

std::size_t place_in_file(const ImportedParameter& parameter, std::int64_t index) {
  std::int64_t at = parameter.offset;
  for (std::size_t a = parameter.dims.size(); a-- > 0; index /= parameter.dims[a])
    at += index % parameter.dims[a] * parameter.strides[a];
  return static_cast<std::size_t>(at);
}

/// Values of one tensor by their place in it, as far as this rank has them.
using Held = std::map<std::size_t, double>;

/// A parameter's gradient, or a running statistic.
struct HeldParameter {
  const ImportedParameter* parameter = nullptr;
  bool is_statistic = false;
  Held values{};
};

/// Whether the values agree with an array; `mismatch` then has nothing.
bool agree(const Held& held, const NpyArray& expected, double bound, std::string* mismatch) {
  for (const auto& [at, value] : held) {
    if (at < expected.values.size() && std::abs(value - expected.values[at]) <= bound) continue;
    *mismatch = fmt::format("element {}: {} instead of {} +- {}", at, value,
                            at < expected.values.size() ? expected.values[at] : NAN, bound);
    return false;
  }
  return true;
}

/// Compares what the step of one or more outputs gave with the arrays of a reference.
class ReferenceCheck {
 public:
  ReferenceCheck(const Arrays& arrays, Findings& findings, std::string where)
      : arrays_(arrays), findings_(findings), where_(std::move(where)) {}

  void add(ImportedRun& step, std::size_t number) {
    for (std::size_t head = 0; head < step.heads(); ++head)
      check_output(step, head, arrays_.at("y" + std::to_string(number + head)));
    const Shape& shape = step.run().geometry().tensors().front().shape;
    const View diff = step.input_gradient().view();
    if (diff.data != nullptr)
      for_each_element(diff.batch, diff.span, [&](auto n, auto c, auto d, auto h, auto w) {
        dx_[place_in(shape, n, c, d, h, w)] += static_cast<double>(diff.at(n, c, d, h, w));
      });
    add_parameters(step);
  }

  void finish() {
    const NpyArray& dx = arrays_.at("dx");
    std::string mismatch;
    findings_.expect(agree(dx_, dx, 1e-4 * dx.largest(), &mismatch),
                     [&] { return where_ + "dx: " + mismatch; });
    std::map<std::string, int> uses;
    double largest = 0;
    for (const auto& [key, held] : parameters_) {
      ++uses[held.parameter->tensor];
      if (const auto found = arrays_.find(held.parameter->tensor);
          found != arrays_.end() && !held.is_statistic)
        largest = std::max(largest, found->second.largest());
    }
    std::map<std::string, bool> taken;
    for (const auto& [key, held] : parameters_) {
      const bool is_shared = uses[held.parameter->tensor] > 1;
      if (!is_shared) taken[held.parameter->tensor] = true;
    }
    for (const auto& [key, held] : parameters_)
      if (uses[held.parameter->tensor] > 1)
        check_shared(held, largest, taken);
      else
        check_parameter(held, largest);
  }

 private:
  void check_output(ImportedRun& step, std::size_t head, const NpyArray& expected) {
    const ConstView y = step.run().executor().output();
    if (y.data == nullptr) return;
    const Shape& shape = step.run().geometry().tensors().back().shape;
    Held held;
    for_each_element(y.batch, y.span, [&](auto n, auto c, auto d, auto h, auto w) {
      const auto place = step.place_in_head(shape, n, c, d, h, w);
      if (place.head == head) held[place.at] = static_cast<double>(y.at(n, c, d, h, w));
    });
    std::string mismatch;
    findings_.expect(agree(held, expected, 1e-5 * expected.largest(), &mismatch),
                     [&] { return where_ + "output: " + mismatch; });
  }

  void add_parameters(ImportedRun& step) {
    Parameters& parameters = step.run().parameters();
    const ModelGeometry& geometry = step.run().geometry();
    const std::vector<float> diffs(parameters.diffs().begin(), parameters.diffs().end());
    parameters.update_moving_averages();
    for_each_held(
        parameters, geometry, step.run().mesh().part(), [&](auto at, auto placement, auto index) {
          const ImportedParameter* const stored = step.stored(placement);
          if (stored == nullptr) return;
          const auto key = std::pair(stored->layer, stored->number);
          HeldParameter& held = parameters_[key];
          if (held.parameter == nullptr) {
            kept_.push_back(std::make_unique<ImportedParameter>(*stored));
            held.parameter = kept_.back().get();
          }
          held.is_statistic = geometry.parameters()[placement].geometry.moving_average > 0;
          double& value = held.values[place_in_file(*stored, index)];
          if (held.is_statistic)
            value = static_cast<double>(parameters.values()[at]);
          else
            value += static_cast<double>(diffs[at]);
        });
  }

  double bound_of(const HeldParameter& held, const NpyArray& expected, double largest) const {
    return 1e-4 * expected.largest() + (held.is_statistic ? 0 : 2e-5 * largest);
  }

  void check_parameter(const HeldParameter& held, double largest) {
    const auto found = arrays_.find(held.parameter->tensor);
    if (found == arrays_.end()) return findings_.fail(where_ + "unknown " + held.parameter->tensor);
    std::string mismatch;
    findings_.expect(
        agree(held.values, found->second, bound_of(held, found->second, largest), &mismatch),
        [&] { return where_ + held.parameter->tensor + ": " + mismatch; });
  }

  /// One of several parameters that share a tensor of the file: the reference has each under a name
  /// that no other parameter has.
  void check_shared(const HeldParameter& held, double largest, std::map<std::string, bool>& taken) {
    std::string mismatch, closest;
    for (const auto& [name, expected] : arrays_) {
      const bool fits = !taken[name] && std::int64_t(expected.values.size()) == volume(held);
      if (!fits || !agree(held.values, expected, bound_of(held, expected, largest), &mismatch))
        continue;
      taken[name] = true;
      return findings_.expect(true, [] { return std::string(); });
    }
    findings_.fail(where_ + held.parameter->layer + " has the gradient of no parameter");
  }
  static std::int64_t volume(const HeldParameter& held) {
    std::int64_t product = 1;
    for (const std::int64_t dim : held.parameter->dims) product *= dim;
    return product;
  }

  const Arrays& arrays_;
  Findings& findings_;
  std::string where_;
  Held dx_;
  std::map<std::pair<std::string, std::size_t>, HeldParameter> parameters_;
  std::vector<std::unique_ptr<ImportedParameter>> kept_;
};

PartGrid grid_for(int ranks) {
  if (ranks == 6) return {3, 2, 1};
  return ranks == 4 ? PartGrid{2, 2, 1} : PartGrid{ranks, 1, 1};
}

TEST_CASE("reference networks give their outputs, gradients and statistics on every mesh") {
  const char* const directory = std::getenv("HALOMESH_NETWORKS");
  if (directory == nullptr)
    return test::skip_case("HALOMESH_NETWORKS names no directory of reference networks");
  std::vector<fs::path> networks;
  for (const auto& entry : fs::directory_iterator(directory))
    if (fs::exists(entry.path() / "reference.npz")) networks.push_back(entry.path());
  std::sort(networks.begin(), networks.end());
  for (const fs::path& home : networks) {
    const Arrays arrays = read_npz(home / "reference.npz");
    const std::string file = (home / "net.onnx").string();
    for_comms(home.filename().string(), {1, 2, 4, 6}, [&](const Comm& comm, Findings& findings) {
      const PartGrid grid = grid_for(comm.size());
      ReferenceCheck check(arrays, findings,
                           fmt::format("{} on {} ranks: ", home.filename().string(), comm.size()));
      const NpyArray& x = arrays.at("x");
      const auto outputs = ImportedRun::read(file, {}, x.dims[0]).outputs;
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        ImportedRun step(comm, grid, file, outputs[k], k, x);
        check.add(step, k);
      }
      check.finish();
      if (outputs.size() == 1) return;
      ReferenceCheck together(arrays, findings,
                              fmt::format("{} on {} ranks, all outputs together: ",
                                          home.filename().string(), comm.size()));
      ImportedRun step(comm, grid, file, {}, 0, x, 0, outputs.size());
      together.add(step, 0);
      together.finish();
    });
  }
}

using namespace onnx_bytes;  // NOLINT: the words of a file

std::string cube(std::int64_t kernel, std::int64_t stride = 1, std::int64_t pad = 0) {
  return integers("kernel_shape", {kernel, kernel, kernel}) +
         integers("strides", {stride, stride, stride}) +
         integers("pads", {pad, pad, pad, pad, pad, pad});
}

/// A norm's scale and offset.
Names scale_and_offset(std::int64_t channels) {
  return {weights("", {channels}, 1), weights("", {channels})};
}

/// Products with gates of channels and of voxels, and their maximum.
std::string gates() {
  return layer("Conv", "x", "a", {weights("", {4, 2, 3, 3, 3})}, cube(3, 1, 1)) +
         layer("GroupNormalization", "a", "b", scale_and_offset(4), integer("num_groups", 2)) +
         node("LeakyRelu", {"b"}, {"c"}, real("alpha", 0.2F)) +
         node("ReduceMean", {"c"}, {"mean"}, integers("axes", {2, 3, 4})) +
         layer("Conv", "mean", "squeezed", {weights("", {4, 4, 1, 1, 1}), weights("", {4})}) +
         node("Sigmoid", {"squeezed"}, {"gate"}) + node("Mul", {"c", "gate"}, {"d"}) +
         layer("Conv", "c", "one", {weights("", {1, 4, 1, 1, 1})}) +
         node("Sigmoid", {"one"}, {"map"}) + node("Mul", {"map", "c"}, {"e"}) +
         node("Max", {"d", "e"}, {"f"}) + node("Sub", {"f", "d"}, {"g"}) +
         node("Softmax", {"c"}, {"share"}, integer("axis", 1)) + node("Mul", {"g", "share"}, {"y"});
}

/// Functions of one element between convolutions.
std::string functions() {
  std::string graph = layer("Conv", "x", "a0", {weights("", {4, 2, 3, 3, 3})}, cube(3, 1, 1));
  int number = 0;
  const auto apply = [&](const std::string& operation, const std::string& attributes = {}) {
    const std::string from = "a" + std::to_string(number++), to = "a" + std::to_string(number);
    graph += node(operation, {from}, {to}, attributes);
  };
  for (const char* const operation : {"Gelu", "Softplus", "Tanh", "Mish", "HardSwish", "Erf"})
    apply(operation);
  apply("Elu", real("alpha", 0.7F));
  apply("Selu");
  apply("Gelu", word("approximate", "tanh"));
  const std::string last = "a" + std::to_string(number);
  return graph + layer("PRelu", last, "b", {weights("", {4, 1, 1, 1}, 0.3F)}) +
         node("Sigmoid", {"b"}, {"s"}) + node("Mul", {"b", "s"}, {"c"}) +
         layer("Conv", "c", "y", {weights("", {2, 4, 1, 1, 1})});
}

/// Windows, paddings, crops and resizes that do not fit the cuts.
std::string sizes() {
  return layer("Conv", "x", "a", {weights("", {4, 2, 3, 2, 3}), weights("", {4})},
               integers("strides", {2, 1, 2}) + integers("pads", {1, 0, 2, 1, 1, 0})) +
         layer("ConvTranspose", "a", "b", {weights("", {4, 3, 3, 3, 3})},
               cube(3, 2, 1) + integers("output_padding", {1, 0, 1})) +
         layer("Pad", "b", "c", {tensor<std::int64_t>("", {10}, {0, 0, 1, 0, 2, 0, 0, 0, 1, 0})},
               word("mode", "edge")) +
         node("MaxPool", {"c"}, {"d"}, cube(3, 2) + integer("ceil_mode", 1)) +
         layer("Resize", "d", "e",
               {tensor<float>("", {0}, {}), tensor<float>("", {5}, {1, 1, 1.5F, 2, 1.25F})},
               word("mode", "linear")) +
         node("AveragePool", {"e"}, {"f"}, cube(2) + integer("count_include_pad", 1)) +
         layer("Slice", "f", "g",
               {tensor<std::int64_t>("", {2}, {1, 0}), tensor<std::int64_t>("", {2}, {1 << 30, -2}),
                tensor<std::int64_t>("", {2}, {2, 4})}) +
         node("Concat", {"g", "g"}, {"h"}, integer("axis", 1)) +
         layer("Pad", "h", "y", {tensor<std::int64_t>("", {10}, {0, 0, 2, 1, 1, 0, 0, 2, 1, 1})},
               word("mode", "reflect"));
}

/// Layers on the channels of a voxel, written with channels last.
std::string channels() {
  return layer("Conv", "x", "a", {weights("", {6, 2, 1, 1, 1}), weights("", {6})}) +
         layer("Conv", "a", "b", {weights("", {6, 1, 5, 5, 5})},
               cube(5, 1, 2) + integer("group", 6)) +
         node("Transpose", {"b"}, {"c"}, integers("perm", {0, 2, 3, 4, 1})) +
         layer("LayerNormalization", "c", "d", scale_and_offset(6), integer("axis", -1)) +
         layer("MatMul", "d", "e", {weights("", {6, 8})}) +
         layer("Add", "e", "f", {weights("", {8})}) + node("Gelu", {"f"}, {"u"}) +
         node("LogSoftmax", {"u"}, {"g"}, integer("axis", -1)) +
         layer("MatMul", "g", "h", {weights("", {8, 6})}) +
         node("Transpose", {"h"}, {"i"}, integers("perm", {0, 4, 1, 2, 3})) +
         layer("Mul", "i", "j", {weights("", {6, 1, 1, 1}, 1)}) + node("Add", {"a", "j"}, {"k"}) +
         node("Split", {"k"}, {"l", "m"}, integer("axis", 1) + integer("num_outputs", 2)) +
         node("LpNormalization", {"l"}, {"n"}, integer("axis", 1)) +
         node("Div", {"n", "two"}, {"o"}) + initializer(tensor<float>("two", {}, {2})) +
         layer("ConvTranspose", "m", "p", {weights("", {3, 1, 3, 3, 3})},
               cube(3, 1, 1) + integer("group", 3)) +
         node("Concat", {"o", "p"}, {"y"}, integer("axis", 1));
}

/// Batch norms, a wrapped border and dense layers on all voxels.
std::string head() {
  Names norm = scale_and_offset(4);
  norm.push_back(weights("", {4}));
  norm.push_back(weights("", {4}, 2));
  return layer("Pad", "x", "a", {tensor<std::int64_t>("", {10}, {0, 0, 1, 1, 1, 0, 0, 1, 1, 1})},
               word("mode", "wrap")) +
         layer("Conv", "a", "b", {weights("", {4, 2, 3, 3, 3})}, cube(3)) +
         layer("BatchNormalization", "b", "c", norm) + node("Relu", {"c"}, {"d"}) +
         node("AveragePool", {"d"}, {"e"}, cube(2, 2)) + node("Flatten", {"e"}, {"f"}) +
         layer("Gemm", "f", "g", {weights("", {5, 4 * 4 * 4 * 3}), weights("", {5})},
               integer("transB", 1)) +
         node("Tanh", {"g"}, {"h"}) +
         layer("Gemm", "h", "y", {weights("", {5, 3}), weights("", {3})});
}

NpyArray own_input() {
  NpyArray x;
  x.dims = {2, 2, 9, 8, 7};
  for (int i = 0; i < 2 * 2 * 9 * 8 * 7; ++i) x.values.push_back(std::sin(0.37 * i + 0.01 * i * i));
  return x;
}

/// L of a step, and the sum of its gradients times direction().
struct Slope {
  double loss = 0, along = 0;
};

Slope slope_of(ImportedRun& step) {
  Slope slope;
  const ConstView y = step.run().executor().output();
  const Shape out = step.run().geometry().tensors().back().shape;
  const Shape in = step.run().geometry().tensors().front().shape;
  for_each_element(y.batch, y.span, [&](auto n, auto c, auto d, auto h, auto w) {
    slope.loss += std::cos(static_cast<double>(place_in(out, n, c, d, h, w))) *
                  static_cast<double>(y.at(n, c, d, h, w));
  });
  const View dx = step.input_gradient().view();
  for_each_element(dx.batch, dx.span, [&](auto n, auto c, auto d, auto h, auto w) {
    slope.along += static_cast<double>(dx.at(n, c, d, h, w)) *
                   direction(0, static_cast<std::int64_t>(place_in(in, n, c, d, h, w)));
  });
  const ModelGeometry& geometry = step.run().geometry();
  for_each_held(step.run().parameters(), geometry, 0, [&](auto at, auto placement, auto index) {
    if (geometry.parameters()[placement].geometry.moving_average == 0)
      slope.along += static_cast<double>(step.run().parameters().diffs()[at]) *
                     direction(placement + 1, index);
  });
  return slope;
}

/// The arrays of a reference, as one rank computes them.
Arrays arrays_of(ImportedRun& step) {
  Arrays arrays;
  const auto store = [&](const std::string& name, ConstView view, const Shape& shape) {
    NpyArray& array = arrays[name];
    array.values.resize(static_cast<std::size_t>(view.batch * shape.volume()));
    for_each_element(view.batch, view.span, [&](auto n, auto c, auto d, auto h, auto w) {
      array.values[place_in(shape, n, c, d, h, w)] = static_cast<double>(view.at(n, c, d, h, w));
    });
  };
  const ModelGeometry& geometry = step.run().geometry();
  store("y0", step.run().executor().output(), geometry.tensors().back().shape);
  store("dx", step.input_gradient().view(), geometry.tensors().front().shape);
  Parameters& parameters = step.run().parameters();
  const std::vector<float> diffs(parameters.diffs().begin(), parameters.diffs().end());
  parameters.update_moving_averages();
  for_each_held(parameters, geometry, 0, [&](auto at, auto placement, auto index) {
    const ImportedParameter* const stored = step.stored(placement);
    if (stored == nullptr) return;
    NpyArray& array = arrays[stored->tensor];
    const std::size_t place = place_in_file(*stored, index);
    array.values.resize(std::max(array.values.size(), place + 1));
    const bool is_statistic = geometry.parameters()[placement].geometry.moving_average > 0;
    array.values[place] = static_cast<double>(is_statistic ? parameters.values()[at] : diffs[at]);
  });
  return arrays;
}

TEST_CASE("networks of all kinds of nodes: gradients are slopes, and equal on every mesh") {
  const NpyArray x = own_input();
  struct Case {
    const char* name;
    std::string graph;
  };
  for (const Case& each : {Case{"gates", gates()},
                           {"functions", functions()},
                           {"sizes", sizes()},
                           {"channels", channels()},
                           {"head", head()}}) {
    const char* const name = each.name;
    const FileOf file(
        model(graph_input("x", {2, 2, 9, 8, 7}) + each.graph + graph_output("y"), 22));
    for_comms(name, {1, 2, 4, 6}, [&](const Comm& comm, Findings& findings) {
      const Comm alone = comm.split(comm.rank(), 0);
      ImportedRun whole(alone, {1, 1, 1}, file.name(), {}, 0, x);
      if (comm.size() == 1) {
        // Few elements cross a kink within such a step, and losses are exact to about 1e-5.
        constexpr double kStep = 1e-4;
        ImportedRun ahead(alone, {1, 1, 1}, file.name(), {}, 0, x, kStep),
            behind(alone, {1, 1, 1}, file.name(), {}, 0, x, -kStep);
        const double expected = (slope_of(ahead).loss - slope_of(behind).loss) / (2 * kStep);
        const double found = slope_of(whole).along;
        findings.expect(std::abs(found - expected) < 0.01 * std::abs(expected) + 0.1, [&] {
          return fmt::format("{}: a slope of {} instead of {}", name, found, expected);
        });
      }
      const Arrays arrays = arrays_of(whole);
      ImportedRun cut(comm, grid_for(comm.size()), file.name(), {}, 0, x);
      ReferenceCheck check(arrays, findings, fmt::format("{} on {} ranks: ", name, comm.size()));
      check.add(cut, 0);
      check.finish();
    });
  }
}

}  // namespace
}  // namespace halomesh
