// SPDX-License-Identifier: Apache-2.0
// Tensors joined along an axis: see concat.hpp.
#include "src/nn/layers/concat.hpp"

#include <algorithm>
#include <utility>

#include "src/nn/kernels/copy_box.hpp"
#include "src/nn/kernels/float_types.hpp"

namespace halomesh {
namespace {

// The place along `axis` at which an input begins in the output.
std::int64_t begin_of_input(std::span<const Shape> src, std::size_t input, Axis axis) {
  std::int64_t planes = 0;
  for (const Shape& shape : src.first(input)) planes += Box::whole(shape).extent(axis);
  return planes;
}

}  // namespace

Shape Concat::dst_shape(std::span<const Shape> src) const {
  require(src.size() >= 2, text("concatenation of {} inputs", src.size()),
          "name at least two inputs");
  Box dst = Box::whole(src[0]);
  for (std::size_t i = 1; i < src.size(); ++i) {
    Box other = Box::whole(src[i]);
    const std::int64_t planes = std::exchange(other.hi[axis_], dst.hi[axis_]);
    require(other == dst,
            text("concatenation of inputs of different extents: input 0 is {}, input {} is {}",
                 src[0], i, src[i]),
            "crop or pad them; extents that are a multiple of all strides need neither");
    dst.hi[axis_] += planes;
  }
  return dst.shape();
}

Box Concat::needs(const Box& dst, std::size_t input, std::span<const Shape> src) const {
  const std::int64_t first = begin_of_input(src, input, axis_);
  Box box = dst;
  box.lo[axis_] = std::max<std::int64_t>(0, dst.lo[axis_] - first);
  box.hi[axis_] = std::min(Box::whole(src[input]).extent(axis_), dst.hi[axis_] - first);
  return box.normalized();
}

DataType Concat::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "concatenation");
}

std::string Concat::kernel_name() const { return fmt::format("concat {}", name_of(type_)); }

void Concat::prepare(const LayerContext& context, std::vector<ParameterView>) {
  context_ = context;
}

Box Concat::in_dst(Box box, std::size_t input) const {
  const std::int64_t first = begin_of_input(context_.src_shapes, input, axis_);
  box.lo[axis_] += first;
  box.hi[axis_] += first;
  return box;
}

void Concat::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                     const Box& chunk) {
  for (std::size_t i = 0; i < src.size(); ++i) {
    const Box box = needs(chunk, i, context_.src_shapes);
    if (!box.empty()) copy_box(src[i], box, dst, in_dst(box, i));
  }
}

void Concat::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst,
                           std::size_t input, AnyView diff_src) {
  const Box& box = context_.boxes.src_needed[input];
  if (!box.empty()) copy_box(diff_dst, in_dst(box, input), diff_src, box);
}

}  // namespace halomesh
