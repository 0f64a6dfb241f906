// SPDX-License-Identifier: Apache-2.0
// Computes parts of a graph before any sample: see folding.hpp.
#include "models/onnx/folding.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

using Folded = std::vector<OnnxConstant>;
using Values = std::vector<double>;

Folded one(OnnxConstant constant) { return {std::move(constant)}; }
OnnxConstant vector_of(const std::vector<std::int64_t>& integers) {
  return OnnxConstant::computed({std::ssize(integers)}, {integers.begin(), integers.end()}, true);
}

void require_few(std::int64_t numbers) {
  require(numbers <= kMostOnnxNumbers, text("a constant of {} elements is computed with", numbers),
          text("only those of at most {} are", kMostOnnxNumbers));
}

/// Element by element with broadcasting. `integer`: whether the result is; otherwise as the inputs.
template <class Function>
Folded elementwise(const OnnxNode& node, const Function& function, bool integer = false) {
  std::vector<OnnxConstant> in;
  OnnxDims dims;
  for (std::size_t i = 0; i < node.inputs(); ++i)
    dims = broadcast_dims(dims, node.required(i, "operand").dims());
  for (std::size_t i = 0; i < node.inputs(); ++i) in.push_back(node.constant(i)->expanded(dims));
  require_few(OnnxConstant::volume_of(dims));
  const bool integers =
      std::all_of(in.begin(), in.end(), [](const auto& c) { return c.integer(); });
  Values values;
  std::vector<double> operands(in.size());
  for (std::int64_t k = 0; k < OnnxConstant::volume_of(dims); ++k) {
    for (std::size_t i = 0; i < in.size(); ++i) operands[i] = in[i].at(k);
    const double value = function(operands);
    values.push_back(integers && !integer ? std::trunc(value) : value);
  }
  return one(OnnxConstant::computed(dims, std::move(values), integer || integers));
}

Folded reduced(const OnnxNode& node, const std::function<double(double, double)>& join) {
  const OnnxConstant& in = node.required(0, "input");
  require(node.integers("axes", 1).value_or(std::vector<std::int64_t>{}).empty(),
          "a constant is reduced over some axes", "export with the newest exporter");
  const Values values = in.values();
  require(!values.empty(), "an empty constant is reduced");
  const double total = std::accumulate(values.begin() + 1, values.end(), values.front(), join);
  const OnnxDims dims(node.integer("keepdims", 1) != 0 ? in.dims().size() : 0, 1);
  return one(OnnxConstant::computed(dims, {total}, in.integer()));
}

/// Takes places[a] along axis a: Gather and Slice.
OnnxConstant taken(const OnnxConstant& in, std::size_t axis,
                   const std::vector<std::int64_t>& places, const OnnxDims& in_place) {
  const OnnxDims& from = in.dims();
  std::int64_t outer = 1, inner = 1;
  for (std::size_t a = 0; a < from.size(); ++a)
    (a < axis ? outer : a > axis ? inner : outer) *= a == axis ? 1 : from[a];
  require_few(outer * inner);
  require_few(outer * inner * std::ssize(places));
  Values values;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t place : places) {
      const std::int64_t at = place < 0 ? place + from[axis] : place;
      require(at >= 0 && at < from[axis], text("element {} of {}", place, from[axis]),
              "export the network again");
      for (std::int64_t i = 0; i < inner; ++i)
        values.push_back(in.at((o * from[axis] + at) * inner + i));
    }
  OnnxDims dims = from;
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), in_place.begin(), in_place.end());
  return OnnxConstant::computed(dims, std::move(values), in.integer());
}

Folded fold_slice(const OnnxNode& node) {
  OnnxConstant in = node.required(0, "data");
  const auto starts = node.integers("starts", 1).value(), ends = node.integers("ends", 2).value();
  std::vector<std::int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.integers("axes", 3).value_or(axes);
  const auto steps =
      node.integers("steps", 4).value_or(std::vector<std::int64_t>(starts.size(), 1));
  require(
      ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
      "a slice with lists of different lengths");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = onnx_axis(axes[i], in.dims().size());
    const std::int64_t extent = in.dims()[axis], step = steps[i];
    require(step != 0, "a slice with step 0");
    const auto bound = [&](std::int64_t at) {
      if (at < 0) at += extent;
      return step > 0 ? std::clamp<std::int64_t>(at, 0, extent)
                      : std::clamp<std::int64_t>(at, -1, extent - 1);
    };
    std::vector<std::int64_t> places;
    for (std::int64_t at = bound(starts[i]), end = bound(ends[i]); step > 0 ? at < end : at > end;
         at += step)
      places.push_back(at);
    in = taken(in, axis, places, {std::ssize(places)});
  }
  return one(in);
}

Folded fold_concat(const OnnxNode& node) {
  const OnnxConstant& first = node.required(0, "input");
  const std::size_t axis = onnx_axis(node.integer("axis", 1), first.dims().size());
  OnnxDims dims = first.dims();
  dims[axis] = 0;
  std::int64_t outer = 1;
  for (std::size_t a = 0; a < axis; ++a) outer *= dims[a];
  std::vector<Values> parts;
  for (std::size_t i = 0; i < node.inputs(); ++i) {
    const OnnxConstant& part = node.required(i, "input");
    require(part.dims().size() == dims.size(), "a concatenation of different ranks");
    dims[axis] += part.dims()[axis];
    parts.push_back(part.values());
  }
  Values values;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Values& part : parts) {
      const auto share = std::ssize(part) / outer;
      values.insert(values.end(), part.begin() + o * share, part.begin() + (o + 1) * share);
    }
  return one(OnnxConstant::computed(dims, std::move(values), first.integer()));
}

Folded fold_constant(const OnnxNode& node) {
  if (const onnx::Attribute* const a = node.attribute("value"))
    return one(OnnxConstant::of(node.file(), a->t()));
  if (const onnx::Attribute* const a = node.attribute("value_int"))
    return one(OnnxConstant::computed({}, {static_cast<double>(a->i())}, true));
  if (const onnx::Attribute* const a = node.attribute("value_float"))
    return one(OnnxConstant::computed({}, {static_cast<double>(a->f())}, false));
  if (node.attribute("value_ints") != nullptr) return one(vector_of(node.integers("value_ints")));
  if (const onnx::Attribute* const a = node.attribute("value_floats"))
    return one(OnnxConstant::computed({a->floats_size()}, {a->floats().begin(), a->floats().end()},
                                      false));
  throw Error("a constant that is neither numbers nor a tensor");
}

Folded fold_constant_of_shape(const OnnxNode& node) {
  const onnx::Attribute* const given = node.attribute("value");
  const OnnxConstant value = given == nullptr ? OnnxConstant::computed({1}, {0}, false)
                                              : OnnxConstant::of(node.file(), given->t());
  return one(value.reshaped({}).value_or(value).expanded(node.required(0, "shape").integers()));
}

Folded fold_reshape(const OnnxNode& node) {
  const OnnxConstant& in = node.required(0, "data");
  const OnnxDims dims = reshaped_dims(in.dims(), node.integers("shape", 1).value(),
                                      node.integer("allowzero", 0) != 0);
  if (auto view = in.reshaped(dims)) return one(*view);
  return one(OnnxConstant::computed(dims, in.values(), in.integer()));
}

Folded fold_squeeze(const OnnxNode& node) {
  const OnnxConstant& in = node.required(0, "data");
  const auto axes = node.integers("axes", 1);
  std::vector<bool> goes(in.dims().size());
  for (std::size_t a = 0; a < goes.size(); ++a) goes[a] = !axes && in.dims()[a] == 1;
  for (const std::int64_t axis : axes.value_or(OnnxDims{}))
    goes[onnx_axis(axis, goes.size())] = true;
  OnnxDims dims;
  for (std::size_t a = 0; a < goes.size(); ++a)
    if (!goes[a]) dims.push_back(in.dims()[a]);
  return one(in.reshaped(dims).value());
}

Folded fold_unsqueeze(const OnnxNode& node) {
  const OnnxConstant& in = node.required(0, "data");
  const auto axes = node.integers("axes", 1).value();
  OnnxDims dims(in.dims().size() + axes.size(), 0);
  for (const std::int64_t axis : axes) dims[onnx_axis(axis, dims.size())] = 1;
  auto next = in.dims().begin();
  for (std::int64_t& dim : dims)
    if (dim == 0 && next != in.dims().end()) dim = *next++;
  return one(in.reshaped(dims).value());
}

Folded fold_transpose(const OnnxNode& node) {
  const OnnxConstant& in = node.required(0, "data");
  OnnxDims order = node.integers("perm");
  if (order.empty())
    for (std::size_t a = in.dims().size(); a-- > 0;) order.push_back(static_cast<std::int64_t>(a));
  return one(in.transposed(order));
}

Folded fold_gather(const OnnxNode& node) {
  const OnnxConstant &in = node.required(0, "data"), &places = node.required(1, "indices");
  const std::size_t axis = onnx_axis(node.integer("axis", 0), in.dims().size());
  return one(taken(in, axis, places.integers(), places.dims()));
}

Folded fold_shape(const OnnxNode& node) {
  return one(shape_of(node, node.required(0, "data").dims()));
}

Folded fold_range(const OnnxNode& node) {
  const OnnxConstant& first = node.required(0, "start");
  const double start = first.at(0), end = node.required(1, "limit").at(0),
               step = node.required(2, "delta").at(0);
  const double count = std::max(std::ceil((end - start) / step), 0.0);
  require(count <= static_cast<double>(kMostOnnxNumbers), text("a range of {:g} numbers", count));
  Values values;
  for (double i = 0; i < count; ++i) values.push_back(start + i * step);
  const auto size = std::ssize(values);
  return one(OnnxConstant::computed({size}, std::move(values), first.integer()));
}

Folded fold_cast(const OnnxNode& node) {
  const OnnxConstant& in = node.required(0, "input");
  const bool integer =
      node.proto().op_type() == "CastLike"
          ? node.required(1, "target").integer()
          : is_onnx_integer(static_cast<std::int32_t>(node.integer("to", kOnnxFloat)));
  if (integer == in.integer()) return one(in);
  Values values = in.values();
  for (double& value : values) value = integer ? static_cast<double>(onnx_integer(value)) : value;
  return one(OnnxConstant::computed(in.dims(), std::move(values), integer));
}

/// Like Python's, or like C's with fmod = 1.
double modulo(const OnnxNode& node, double a, double b) {
  const double rest = std::fmod(a, b);
  return node.integer("fmod", 0) == 0 && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

using Fold = Folded (*)(const OnnxNode&);
using In = const std::vector<double>&;

const std::map<std::string_view, Fold>& folds() {
  static const std::map<std::string_view, Fold> kFolds{
      {"Constant", fold_constant},
      {"ConstantOfShape", fold_constant_of_shape},
      {"Identity", [](const OnnxNode& n) { return one(n.required(0, "input")); }},
      {"Cast", fold_cast},
      {"CastLike", fold_cast},
      {"Shape", fold_shape},
      {"Size",
       [](const OnnxNode& n) {
         return one(OnnxConstant::computed(
             {}, {static_cast<double>(n.required(0, "data").volume())}, true));
       }},
      {"Gather", fold_gather},
      {"Slice", fold_slice},
      {"Concat", fold_concat},
      {"Reshape", fold_reshape},
      {"Flatten",
       [](const OnnxNode& n) {
         return one(n.required(0, "input").reshaped({1, n.required(0, "input").volume()}).value());
       }},
      {"Squeeze", fold_squeeze},
      {"Unsqueeze", fold_unsqueeze},
      {"Transpose", fold_transpose},
      {"Range", fold_range},
      {"Expand",
       [](const OnnxNode& n) {
         const OnnxConstant& in = n.required(0, "input");
         return one(in.expanded(broadcast_dims(in.dims(), n.required(1, "shape").integers())));
       }},
      {"Add", [](const OnnxNode& n) { return elementwise(n, [](In x) { return x[0] + x[1]; }); }},
      {"Sub", [](const OnnxNode& n) { return elementwise(n, [](In x) { return x[0] - x[1]; }); }},
      {"Mul", [](const OnnxNode& n) { return elementwise(n, [](In x) { return x[0] * x[1]; }); }},
      {"Div", [](const OnnxNode& n) { return elementwise(n, [](In x) { return x[0] / x[1]; }); }},
      {"Mod",
       [](const OnnxNode& n) {
         return elementwise(n, [&](In x) { return modulo(n, x[0], x[1]); });
       }},
      {"Pow",
       [](const OnnxNode& n) { return elementwise(n, [](In x) { return std::pow(x[0], x[1]); }); }},
      {"Min",
       [](const OnnxNode& n) {
         return elementwise(n, [](In x) { return *std::min_element(x.begin(), x.end()); });
       }},
      {"Max",
       [](const OnnxNode& n) {
         return elementwise(n, [](In x) { return *std::max_element(x.begin(), x.end()); });
       }},
      {"Neg", [](const OnnxNode& n) { return elementwise(n, [](In x) { return -x[0]; }); }},
      {"Abs",
       [](const OnnxNode& n) { return elementwise(n, [](In x) { return std::abs(x[0]); }); }},
      {"Sqrt",
       [](const OnnxNode& n) { return elementwise(n, [](In x) { return std::sqrt(x[0]); }); }},
      {"Floor",
       [](const OnnxNode& n) { return elementwise(n, [](In x) { return std::floor(x[0]); }); }},
      {"Ceil",
       [](const OnnxNode& n) { return elementwise(n, [](In x) { return std::ceil(x[0]); }); }},
      {"Reciprocal",
       [](const OnnxNode& n) { return elementwise(n, [](In x) { return 1 / x[0]; }); }},
      {"Not",
       [](const OnnxNode& n) {
         return elementwise(
             n, [](In x) { return x[0] == 0 ? 1.0 : 0.0; }, true);
       }},
      {"And",
       [](const OnnxNode& n) {
         return elementwise(
             n, [](In x) { return x[0] != 0 && x[1] != 0 ? 1.0 : 0.0; }, true);
       }},
      {"Or",
       [](const OnnxNode& n) {
         return elementwise(
             n, [](In x) { return x[0] != 0 || x[1] != 0 ? 1.0 : 0.0; }, true);
       }},
      {"Equal",
       [](const OnnxNode& n) {
         return elementwise(
             n, [](In x) { return x[0] == x[1] ? 1.0 : 0.0; }, true);
       }},
      {"Less",
       [](const OnnxNode& n) {
         return elementwise(
             n, [](In x) { return x[0] < x[1] ? 1.0 : 0.0; }, true);
       }},
      {"Greater",
       [](const OnnxNode& n) {
         return elementwise(
             n, [](In x) { return x[0] > x[1] ? 1.0 : 0.0; }, true);
       }},
      {"Where",
       [](const OnnxNode& n) {
         const bool integer = n.required(1, "x").integer();
         return elementwise(
             n, [](In x) { return x[0] != 0 ? x[1] : x[2]; }, integer);
       }},
      {"ReduceProd",
       [](const OnnxNode& n) { return reduced(n, [](double a, double b) { return a * b; }); }},
      {"ReduceSum",
       [](const OnnxNode& n) { return reduced(n, [](double a, double b) { return a + b; }); }},
      {"ReduceMax", [](const OnnxNode& n) {
         return reduced(n, [](double a, double b) { return std::max(a, b); });
       }}};
  return kFolds;
}

}  // namespace

OnnxConstant shape_of(const OnnxNode& node, const OnnxDims& dims) {
  const auto rank = std::ssize(dims);
  const auto bound = [&](const char* name, std::int64_t fallback) {
    const std::int64_t at = node.integer(name, fallback);
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t first = bound("start", 0), last = std::max(bound("end", rank), first);
  return vector_of({dims.begin() + first, dims.begin() + last});
}

std::vector<OnnxConstant> fold_onnx(const OnnxNode& node) {
  const auto found = folds().find(node.proto().op_type());
  return found == folds().end() ? std::vector<OnnxConstant>{} : found->second(node);
}

}  // namespace halomesh
