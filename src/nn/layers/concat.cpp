// SPDX-License-Identifier: Apache-2.0
// Tensors joined along the channels: see concat.hpp.
#include "src/nn/layers/concat.hpp"

#include <algorithm>

#include "src/nn/kernels/copy_box.hpp"
#include "src/nn/kernels/float_types.hpp"

namespace halomesh {
namespace {

std::int64_t first_channel(std::span<const Shape> src, std::size_t input) {
  std::int64_t channels = 0;
  for (const Shape& shape : src.first(input)) channels += shape.c;
  return channels;
}

}  // namespace

Shape Concat::dst_shape(std::span<const Shape> src) const {
  require(src.size() >= 2, text("concatenation of {} inputs", src.size()),
          "name at least two inputs");
  Shape dst = src[0];
  for (std::size_t i = 1; i < src.size(); ++i) {
    require(src[i].spatial() == src[0].spatial(),
            text("concatenation of inputs of different extents: input 0 is {}, input {} is {}",
                 src[0], i, src[i]),
            "crop or pad them; extents that are a multiple of all strides need neither");
    dst.c += src[i].c;
  }
  return dst;
}

Box Concat::needs(const Box& dst, std::size_t input, std::span<const Shape> src) const {
  const std::int64_t first = first_channel(src, input);
  Box box = dst;
  box.lo[kC] = std::max<std::int64_t>(0, dst.lo[kC] - first);
  box.hi[kC] = std::min(src[input].c, dst.hi[kC] - first);
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
  const std::int64_t first = first_channel(context_.src_shapes, input);
  box.lo[kC] += first;
  box.hi[kC] += first;
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
