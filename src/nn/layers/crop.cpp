// SPDX-License-Identifier: Apache-2.0
// Planes cut off a tensor: see crop.hpp.
#include "src/nn/layers/crop.hpp"

#include <algorithm>

#include "src/nn/kernels/copy_box.hpp"
#include "src/nn/kernels/float_types.hpp"

namespace halomesh {

Crop::Crop(const Planes& before, const Planes& after, DataType type)
    : before_(before), after_(after), type_(type) {
  for (std::size_t a = 0; a < 4; ++a)
    require(before[a] >= 0 && after[a] >= 0,
            text("crop of {} planes before and {} after along axis {}", before[a], after[a], a),
            "planes to cut off must not be negative");
}

Shape Crop::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("crop of {} inputs", src.size()), "name one input for it");
  Box box = Box::whole(src[0]);
  for (std::size_t a = 0; a < 4; ++a) {
    require(before_[a] + after_[a] < box.hi[a],
            text("crop of {} planes before and {} after of {} along axis {}", before_[a], after_[a],
                 box.hi[a], a),
            "cut off fewer planes or use a larger input");
    box.hi[a] -= before_[a] + after_[a];
  }
  return box.shape();
}

Box Crop::needs(const Box& dst, std::size_t, std::span<const Shape>) const {
  if (dst.empty()) return {};
  Box box = dst;
  for (std::size_t a = 0; a < 4; ++a) {
    box.lo[a] += before_[a];
    box.hi[a] += before_[a];
  }
  return box;
}

DataType Crop::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "crop");
}

std::string Crop::kernel_name() const { return fmt::format("crop {}", name_of(type_)); }

void Crop::prepare(const LayerContext& context, std::vector<ParameterView>) { context_ = context; }

void Crop::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst, const Box& chunk) {
  copy_box(src[0], needs(chunk, 0, context_.src_shapes), dst, chunk);
}

void Crop::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst, std::size_t,
                         AnyView diff_src) {
  copy_box(diff_dst, context_.boxes.dst_produced, diff_src, context_.boxes.src_needed[0]);
}

}  // namespace halomesh
