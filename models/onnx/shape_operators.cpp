// SPDX-License-Identifier: Apache-2.0
// Operators of ONNX: what moves, repeats or leaves out elements. See operators.hpp.
#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "joined.hpp"
#include "models/onnx/folding.hpp"
#include "models/onnx/operators.hpp"
#include "src/nn/layers/concat.hpp"
#include "src/nn/layers/crop.hpp"
#include "src/nn/layers/pad.hpp"
#include "src/nn/layers/resize.hpp"
#include "src/nn/layers/tile.hpp"

namespace halomesh {
namespace {

OnnxResults constant_result(OnnxConstant constant) {
  OnnxValue value;
  value.dims = constant.dims();
  value.constant = std::move(constant);
  return value;
}

OnnxResults concat(OperatorCall& call) {
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < call.inputs(); ++i) inputs.push_back(*call.plain(i).tensor);
  const std::size_t axis = onnx_axis(call.node().integer("axis", 1), 5);
  require(axis > 0, "a concatenation of samples", "concatenate channels, or along space");
  if (inputs.size() == 1) return onnx_unchanged(call);
  inputs = call.in_one_type(std::move(inputs));
  constexpr std::array<Axis, 4> kAxes{kC, kD, kH, kW};
  return call.add(std::make_unique<Concat>(call.graph().type(inputs.front()), kAxes[axis - 1]),
                  inputs);
}

OnnxResults tile(OperatorCall& call) {
  const OnnxDims repeats = call.node().required(1, "repeats").integers();
  const OnnxValue& src = call.plain(0);
  require(repeats.size() == 5 && repeats[0] == 1, text("repeats {}", joined(repeats, "x")));
  if (OnnxConstant::volume_of(repeats) == 1) return onnx_unchanged(call);
  if (call.shape(0).spatial() == Spatial{1, 1, 1} && repeats[1] == 1)
    return call.add(
        std::make_unique<Tile>(Spatial{repeats[2], repeats[3], repeats[4]}, call.type(0)));
  require(OnnxConstant::volume_of(repeats) == repeats[1] && repeats[1] <= 4096,
          text("repeats {}", joined(repeats, "x")), "repeat channels, or one voxel");
  return call.add(std::make_unique<Concat>(call.type(0)),
                  std::vector<std::size_t>(static_cast<std::size_t>(repeats[1]), *src.tensor));
}

OnnxResults expand(OperatorCall& call) {
  const OnnxValue& src = call.value(0);
  const OnnxDims wanted = broadcast_dims(src.dims, call.node().required(1, "shape").integers());
  if (src.dims == wanted || !src.tensor) return src;
  call.plain(0);
  require(wanted.size() == 5 && call.shape(0).spatial() == Spatial{1, 1, 1} &&
              wanted[0] == src.dims[0] && wanted[1] == src.dims[1],
          text("{} expanded to {}", joined(src.dims, "x"), joined(wanted, "x")),
          "only one voxel can be repeated");
  return call.add(std::make_unique<Tile>(Spatial{wanted[2], wanted[3], wanted[4]}, call.type(0)));
}

OnnxResults reshape(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  const OnnxNode& node = call.node();
  const OnnxDims dims = reshaped_dims(src.dims, node.required(1, "shape").integers(),
                                      node.integer("allowzero", 0) != 0);
  require(src.form != OnnxForm::kChannelsLast, "channels last, reshaped", "reshape N,C,D,H,W");
  OnnxValue value = call.graph().value_of(*src.tensor);
  value.shared = src.shared;
  value.pattern = src.pattern;
  const std::int64_t batch = call.graph().batch(), channels = value.dims[1];
  require(!dims.empty() && dims[0] == batch,
          text("samples of a batch mixed by a reshape to {}", joined(dims, "x")),
          "keep the first axis");
  if (dims == value.dims) return value;
  value.dims = dims;
  value.form = OnnxForm::kFlat;
  if (dims.size() == 2 && dims[1] == OnnxConstant::volume_of(dims) / batch) return value;
  require(dims.size() == 3 && channels % dims[1] == 0, text("a reshape to {}", joined(dims, "x")),
          "reshape to groups of channels, or to one axis");
  value.form = OnnxForm::kGroups;
  return value;
}

OnnxResults flatten(OperatorCall& call) {
  const std::int64_t axis = call.node().integer("axis", 1);
  const OnnxValue& src = call.tensor(0);
  require(axis == 1 || axis == 1 - std::ssize(src.dims), text("a flattening from axis {}", axis),
          "flatten from axis 1");
  OnnxValue value = flat_value(call.graph().value_of(*src.tensor));
  value.shared = src.shared;
  return value;
}

/// The value of a tensor of one voxel with these dimensions: N,C and axes of extent 1 behind them.
OnnxResults of_one_voxel(OperatorCall& call, const OnnxDims& dims) {
  const OnnxValue& src = call.tensor(0);
  OnnxValue value = call.graph().value_of(*src.tensor);
  require(src.form != OnnxForm::kChannelsLast && call.shape(0).spatial() == Spatial{1, 1, 1} &&
              dims.size() >= 2 && dims.size() <= 5 && dims[0] == value.dims[0] &&
              dims[1] == value.dims[1],
          text("axes of {} changed to {}", joined(src.dims, "x"), joined(dims, "x")),
          "only those of one voxel can be");
  value.shared = src.shared;
  if (dims.size() == 5) return value;
  value.form = OnnxForm::kFlat;
  value.dims = dims;
  return value;
}

OnnxResults squeeze(OperatorCall& call) {
  const OnnxDims& src = call.tensor(0).dims;
  const auto axes = call.node().integers("axes", 1);
  std::vector<bool> goes(src.size());
  for (std::size_t a = 0; a < src.size(); ++a) goes[a] = !axes && src[a] == 1;
  for (const std::int64_t axis : axes.value_or(OnnxDims{}))
    goes[onnx_axis(axis, src.size())] = true;
  OnnxDims dims;
  for (std::size_t a = 0; a < src.size(); ++a)
    if (!goes[a]) dims.push_back(src[a]);
  return of_one_voxel(call, dims);
}

OnnxResults unsqueeze(OperatorCall& call) {
  const OnnxDims& src = call.tensor(0).dims;
  const OnnxDims axes = call.node().integers("axes", 1).value();
  OnnxDims dims(src.size() + axes.size(), 0);
  for (const std::int64_t axis : axes) dims[onnx_axis(axis, dims.size())] = 1;
  auto next = src.begin();
  for (std::int64_t& dim : dims)
    if (dim == 0 && next != src.end()) dim = *next++;
  return of_one_voxel(call, dims);
}

OnnxResults transpose(OperatorCall& call) {
  const OnnxValue& src = call.tensor(0);
  const OnnxDims order = call.node().integers("perm");
  OnnxValue value = src;
  if (src.form == OnnxForm::kPlain && order == OnnxDims{0, 2, 3, 4, 1}) {
    value.form = OnnxForm::kChannelsLast;
    value.dims = {src.dims[0], src.dims[2], src.dims[3], src.dims[4], src.dims[1]};
  } else if (src.form == OnnxForm::kChannelsLast && order == OnnxDims{0, 4, 1, 2, 3}) {
    value = call.graph().value_of(*src.tensor);
    value.shared = src.shared;
    value.pattern = src.pattern;
  } else {
    throw Error(fmt::format("a transposition by {}", joined(order, ",")),
                "only channels may move, to the end and back");
  }
  return value;
}

ResizeCoordinates resize_coordinates(const std::string& name) {
  const std::map<std::string_view, ResizeCoordinates> known{
      {"half_pixel", ResizeCoordinates::kHalfPixel},
      {"pytorch_half_pixel", ResizeCoordinates::kPytorchHalfPixel},
      {"align_corners", ResizeCoordinates::kAlignCorners},
      {"asymmetric", ResizeCoordinates::kAsymmetric}};
  const auto found = known.find(name);
  require(found != known.end(), text("the coordinates {}", name), "use those of torch.nn.Upsample");
  return found->second;
}

OnnxResults resize(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const bool old = node.opset() < 11 || node.proto().op_type() == "Upsample";
  const std::string mode = node.word("mode", "nearest");
  const std::string rounding = node.word("nearest_mode", old ? "floor" : "round_prefer_floor");
  require((mode == "nearest" || mode == "linear" || mode == "trilinear") &&
              node.integer("antialias", 0) == 0 && node.integer("exclude_outside", 0) == 0 &&
              node.word("keep_aspect_ratio_policy", "stretch") == "stretch",
          text("the mode {}", mode), "use nearest or trilinear");
  ResizeOptions options;
  options.type = call.type(0);
  options.mode = mode == "nearest" ? ResizeMode::kNearest : ResizeMode::kLinear;
  options.coordinates = resize_coordinates(
      node.word("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"));
  options.rounding = rounding == "floor"               ? ResizeRounding::kFloor
                     : rounding == "ceil"              ? ResizeRounding::kCeil
                     : rounding == "round_prefer_ceil" ? ResizeRounding::kPreferCeil
                                                       : ResizeRounding::kPreferFloor;
  const OnnxValue& src = call.plain(0);
  const std::size_t at = old ? 1 : 2;
  std::vector<double> scales;
  if (node.has(at)) scales = node.required(at, "scales").values();
  if (const onnx::Attribute* const given = node.attribute("scales"))
    scales.assign(given->floats().begin(), given->floats().end());
  OnnxDims sizes;
  if (scales.empty()) sizes = node.required(3, "sizes").integers();
  if (node.attribute("axes") != nullptr) {  // only of these axes
    const OnnxDims axes = node.integers("axes");
    std::vector<double> all_scales(5, 1);
    OnnxDims all_sizes = src.dims;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::size_t axis = onnx_axis(axes[i], 5);
      if (i < scales.size()) all_scales[axis] = scales[i];
      if (i < sizes.size()) all_sizes[axis] = sizes[i];
    }
    if (!scales.empty()) scales = all_scales;
    if (!sizes.empty()) sizes = all_sizes;
  }
  require((scales.size() == 5 && scales[0] == 1 && scales[1] == 1) ||
              (sizes.size() == 5 && sizes[0] == src.dims[0] && sizes[1] == src.dims[1]),
          "a change of samples or channels", "resize space alone");
  for (std::size_t a = 0; a < 3; ++a) {
    if (!scales.empty()) options.scales[a] = scales[a + 2];
    if (!sizes.empty()) options.extents[a] = sizes[a + 2];
  }
  return call.add(std::make_unique<Resize>(options));
}

using Planes = Crop::Planes;

/// Along c, d, h, w: what each axis of N,C,D,H,W that a node names is given.
Planes of_axes(const OnnxDims& values, const OnnxDims& axes) {
  Planes planes{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = onnx_axis(axes[i], 5);
    require(axis > 0 || values[i] == 0, "samples of a batch cut or padded", "keep the first axis");
    if (axis > 0) planes[axis - 1] = values[i];
  }
  return planes;
}

OnnxValue cropped(OperatorCall& call, const Planes& before, const Planes& after) {
  const OnnxValue& src = call.plain(0);
  if (before == Planes{} && after == Planes{}) return src;
  return call.add(std::make_unique<Crop>(before, after, call.type(0)));
}

OnnxResults slice(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const OnnxValue& src = call.plain(0);
  const OnnxDims starts = node.integers("starts", 1).value(),
                 ends = node.integers("ends", 2).value();
  OnnxDims axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.integers("axes", 3).value_or(axes);
  const OnnxDims steps = node.integers("steps", 4).value_or(OnnxDims(starts.size(), 1));
  require(ends.size() == starts.size() && axes.size() == starts.size() &&
              std::all_of(steps.begin(), steps.end(), [](auto step) { return step == 1; }),
          "a slice with steps", "slice without steps");
  OnnxDims before(axes.size()), after(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t extent = src.dims[onnx_axis(axes[i], 5)];
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent);
    };
    before[i] = place(starts[i]);
    after[i] = extent - place(ends[i]);
  }
  return cropped(call, of_axes(before, axes), of_axes(after, axes));
}

OnnxResults split(OperatorCall& call) {
  const OnnxNode& node = call.node();
  const OnnxValue& src = call.plain(0);
  const std::size_t axis = onnx_axis(node.integer("axis", 0), 5);
  const std::int64_t extent = src.dims[axis], outputs = node.proto().output_size();
  OnnxDims sizes = node.integers("split", 1).value_or(OnnxDims{});
  if (sizes.empty()) {
    const std::int64_t size = (extent + outputs - 1) / outputs;
    for (std::int64_t at = 0; at < extent; at += size) sizes.push_back(std::min(size, extent - at));
  }
  OnnxResults results;
  std::int64_t at = 0;
  const OnnxDims axes{static_cast<std::int64_t>(axis)};
  for (const std::int64_t size : sizes) {
    require(size > 0 && size <= extent - at,
            text("a split of {} into {}", extent, joined(sizes, ",")));
    results.push_back(cropped(call, of_axes({at}, axes), of_axes({extent - at - size}, axes)));
    at += size;
  }
  return results;
}

OnnxResults pad(OperatorCall& call) {
  const OnnxNode& node = call.node();
  call.plain(0);
  const OnnxDims pads = node.integers("pads", 1).value();
  OnnxDims axes{0, 1, 2, 3, 4};
  if (node.has(3)) axes = node.required(3, "axes").integers();
  require(pads.size() == 2 * axes.size(), text("pads {}", joined(pads, ",")));
  const auto half = pads.begin() + std::ssize(axes);
  const Planes before = of_axes({pads.begin(), half}, axes),
               after = of_axes({half, pads.end()}, axes);
  const auto either = [](const Planes& planes, bool adds) {
    Planes part{};
    for (std::size_t a = 0; a < 4; ++a)
      part[a] = std::max<std::int64_t>(adds ? planes[a] : -planes[a], 0);
    return part;
  };
  const OnnxValue value = cropped(call, either(before, false), either(after, false));
  const Planes more = either(before, true), behind = either(after, true);
  require(more[0] == 0 && behind[0] == 0, "channels added by a pad", "concatenate zeros instead");
  if (more == Planes{} && behind == Planes{}) return value;
  const std::map<std::string_view, PadMode> modes{{"constant", PadMode::kConstant},
                                                  {"edge", PadMode::kEdge},
                                                  {"reflect", PadMode::kReflect},
                                                  {"wrap", PadMode::kWrap}};
  const auto mode = modes.find(node.word("mode", "constant"));
  require(mode != modes.end(), text("the mode {}", node.word("mode", "")),
          "use another padding mode");
  PadOptions options;
  options.before = {more[1], more[2], more[3]};
  options.after = {behind[1], behind[2], behind[3]};
  options.mode = mode->second;
  options.value =
      node.has(2) ? static_cast<float>(node.required(2, "value").at(0)) : node.number("value", 0);
  options.type = call.graph().type(*value.tensor);
  return call.add(std::make_unique<Pad>(options), {*value.tensor});
}

OnnxResults shape(OperatorCall& call) {
  return constant_result(shape_of(call.node(), call.tensor(0).dims));
}

OnnxResults cast_like(OperatorCall& call) {
  return call.value(0).constant ? constant_result(*call.value(0).constant) : onnx_unchanged(call);
}

}  // namespace

OnnxOperatorTable shape_operators() {
  return {{"Cast", onnx_unchanged},
          {"CastLike", cast_like},
          {"Concat", concat},
          {"Expand", expand},
          {"Flatten", flatten},
          {"Identity", onnx_unchanged},
          {"Pad", pad},
          {"Reshape", reshape},
          {"Resize", resize},
          {"Shape", shape},
          {"Slice", slice},
          {"Split", split},
          {"Squeeze", squeeze},
          {"Tile", tile},
          {"Transpose", transpose},
          {"Unsqueeze", unsqueeze},
          {"Upsample", resize}};
}

}  // namespace halomesh
