// SPDX-License-Identifier: Apache-2.0
// Constants of a graph and their arithmetic: see constant.hpp.
#include "models/onnx/constant.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"
#include "joined.hpp"

namespace halomesh {
namespace {

OnnxDims dense_strides(const OnnxDims& dims) {
  OnnxDims strides(dims.size());
  std::int64_t step = 1;
  for (std::size_t a = dims.size(); a-- > 0; step *= std::max<std::int64_t>(dims[a], 1))
    strides[a] = step;
  return strides;
}

}  // namespace

std::size_t onnx_axis(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  require(axis >= -signed_rank && axis < signed_rank, text("axis {} of {} dimensions", axis, rank),
          "export the network again");
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

OnnxDims broadcast_dims(const OnnxDims& a, const OnnxDims& b) {
  OnnxDims dims(std::max(a.size(), b.size()), 1);
  for (const OnnxDims* const each : {&a, &b})
    for (std::size_t i = 0; i < each->size(); ++i) {
      std::int64_t& dim = dims[dims.size() - each->size() + i];
      const std::int64_t other = (*each)[i];
      require(dim == other || dim == 1 || other == 1,
              text("{} and {} do not fit each other", joined(a, "x"), joined(b, "x")),
              "export the network again");
      if (dim == 1) dim = other;
    }
  return dims;
}

std::int64_t onnx_integer(double value) {
  constexpr double kMost = 0x1p62;
  require(!std::isnan(value), "a number that is not one is used as an integer");
  return static_cast<std::int64_t>(std::clamp(std::trunc(value), -kMost, kMost));
}

OnnxConstant OnnxConstant::of(const OnnxFile& file, const onnx::TensorProto& tensor) {
  OnnxConstant constant;
  onnx_volume(tensor);
  constant.base_ = std::make_shared<Base>(Base{&file, &tensor});
  constant.integer_ = is_onnx_integer(tensor.data_type());
  constant.dims_.assign(tensor.dims().begin(), tensor.dims().end());
  constant.strides_ = dense_strides(constant.dims_);
  return constant;
}

OnnxConstant OnnxConstant::computed(OnnxDims dims, std::vector<double> values, bool integer) {
  OnnxConstant constant;
  constant.base_ = std::make_shared<Base>(Base{nullptr, nullptr, std::move(values)});
  constant.integer_ = integer;
  constant.strides_ = dense_strides(dims);
  constant.dims_ = std::move(dims);
  return constant;
}

std::int64_t OnnxConstant::volume_of(const OnnxDims& dims) {
  std::int64_t volume = 1;
  for (const std::int64_t dim : dims) {
    require(dim >= 0 && (dim == 0 || volume <= (std::int64_t{1} << 40) / dim),
            text("a constant of {}", joined(dims, "x")), "its extents are absurd");
    volume *= dim;
  }
  return volume;
}

const std::vector<double>& OnnxConstant::base_values() const {
  if (base_->values.empty() && base_->tensor != nullptr) {
    require(!OnnxFile::is_empty(*base_->tensor),
            text("tensor {} has no values", base_->tensor->name()),
            "its values are in the checkpoint alone");
    base_->values = base_->file->values<double>(*base_->tensor);
  }
  return base_->values;
}

std::int64_t OnnxConstant::place(std::int64_t index) const {
  std::int64_t at = offset_;
  for (std::size_t a = dims_.size(); a-- > 0; index /= dims_[a])
    at += index % dims_[a] * strides_[a];
  return at;
}

double OnnxConstant::at(std::int64_t index) const {
  require(index >= 0 && index < volume(), "a constant has too few elements");
  return base_values().at(static_cast<std::size_t>(place(index)));
}

std::vector<double> OnnxConstant::values() const {
  require(volume() <= kMostOnnxNumbers,
          text("a constant of {} is computed with", joined(dims_, "x")),
          text("only those of at most {} elements are", kMostOnnxNumbers));
  std::vector<double> all;
  for (std::int64_t i = 0; i < volume(); ++i) all.push_back(at(i));
  return all;
}

std::vector<std::int64_t> OnnxConstant::integers() const {
  std::vector<std::int64_t> all;
  for (const double value : values()) all.push_back(onnx_integer(value));
  return all;
}

bool OnnxConstant::is_all(double value) const {
  if (base_->tensor != nullptr && OnnxFile::is_empty(*base_->tensor)) return false;
  if (volume() > kMostOnnxNumbers &&
      std::any_of(strides_.begin(), strides_.end(), [](auto s) { return s != 0; }))
    return false;
  const std::int64_t last = std::min(volume(), kMostOnnxNumbers);
  for (std::int64_t i = 0; i < last; ++i)
    if (at(i) != value) return false;
  return true;
}

std::optional<OnnxConstant> OnnxConstant::reshaped(OnnxDims dims) const {
  require(volume_of(dims) == volume(),
          text("a constant of {} reshaped to {}", joined(dims_, "x"), joined(dims, "x")));
  OnnxConstant view = *this;
  view.strides_.assign(dims.size(), 0);
  // Groups of axes with equal volumes: one is a view of the other where its elements follow each
  // other at one distance. Axes of extent 1 have none.
  std::size_t from = 0, to = 0;
  while (volume() > 1 && from < dims_.size() && to < dims.size()) {
    std::size_t from_end = from + 1, to_end = to + 1;
    std::int64_t old_volume = dims_[from], new_volume = dims[to];
    while (old_volume != new_volume)
      if (old_volume < new_volume)
        old_volume *= dims_[from_end++];
      else
        new_volume *= dims[to_end++];
    std::int64_t stride = 0, covered = 1;
    for (std::size_t a = from_end; a-- > from;) {
      if (dims_[a] == 1) continue;
      if (covered == 1) stride = strides_[a];
      if (strides_[a] != stride * covered) return {};
      covered *= dims_[a];
    }
    for (std::size_t a = to_end; a-- > to; stride *= dims[a])
      if (dims[a] != 1) view.strides_[a] = stride;
    from = from_end;
    to = to_end;
  }
  view.dims_ = std::move(dims);
  return view;
}

OnnxConstant OnnxConstant::transposed(const OnnxDims& order) const {
  require(order.size() == dims_.size(), text("a transposition of {} axes", order.size()));
  OnnxConstant view = *this;
  for (std::size_t a = 0; a < order.size(); ++a) {
    const std::size_t from = onnx_axis(order[a], order.size());
    view.dims_[a] = dims_[from];
    view.strides_[a] = strides_[from];
  }
  return view;
}

OnnxConstant OnnxConstant::expanded(const OnnxDims& dims) const {
  require(dims.size() >= dims_.size() && broadcast_dims(dims_, dims) == dims,
          text("a constant of {} expanded to {}", joined(dims_, "x"), joined(dims, "x")));
  OnnxConstant view = *this;
  volume_of(dims);
  view.dims_ = dims;
  view.strides_.assign(dims.size(), 0);
  for (std::size_t a = 0; a < dims_.size(); ++a)
    if (dims_[a] != 1) view.strides_[dims.size() - dims_.size() + a] = strides_[a];
  return view;
}

OnnxDims reshaped_dims(const OnnxDims& from, std::vector<std::int64_t> wanted, bool zeros_stay) {
  const std::int64_t volume = OnnxConstant::volume_of(from);
  std::int64_t known = 1, unknown = -1;
  for (std::size_t a = 0; a < wanted.size(); ++a) {
    if (wanted[a] == 0 && !zeros_stay && a < from.size()) wanted[a] = from[a];
    require(wanted[a] >= -1 && (wanted[a] != -1 || unknown < 0), "a reshaping to unknown extents");
    if (wanted[a] == -1)
      unknown = static_cast<std::int64_t>(a);
    else
      known *= wanted[a];
    require(known <= (std::int64_t{1} << 40), "a reshaping to absurd extents");
  }
  if (unknown >= 0 && known > 0) wanted[static_cast<std::size_t>(unknown)] = volume / known;
  require(OnnxConstant::volume_of(wanted) == volume,
          text("{} reshaped to {}", joined(from, "x"), joined(wanted, "x")),
          "the file is for the extents that it was exported with");
  return wanted;
}

}  // namespace halomesh
