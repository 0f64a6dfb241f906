// SPDX-License-Identifier: Apache-2.0
// The values of a tensor in another type: see cast.hpp.
#include "src/nn/layers/cast.hpp"

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {
namespace {

void convert(AnyConstView src, AnyView dst, const Box& box) {
  const bool rows = has_all_channels(box, src) && has_all_channels(box, dst);
  with_float_type(src.type, [&](auto from) {
    with_float_type(dst.type, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const auto in = src.as<From>();
      const auto out = dst.as<To>();
      visit_runs(box, out.batch, rows, [&](const Run& run) {
        const From* const x = run.begin_in(in, box);
        To* const y = run.begin_in(out, box);
        for (std::int64_t i = 0; i < run.length; ++i) y[i] = To(static_cast<float>(x[i]));
      });
    });
  });
}

}  // namespace

DataType Cast::dst_type(std::span<const DataType> src) const {
  for (const DataType type : {src[0], type_})
    require(type == DataType::kFloat32 || type == DataType::kBfloat16,
            text("a cast of {} to {}", name_of(src[0]), name_of(type_)), "cast fp32 and bf16 only");
  return type_;
}

void Cast::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst, const Box& chunk) {
  convert(src[0], dst, chunk);
}

void Cast::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst, std::size_t,
                         AnyView diff_src) {
  convert(diff_dst, diff_src, context().boxes.src_needed[0]);
}

}  // namespace halomesh
