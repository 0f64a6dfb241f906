// SPDX-License-Identifier: Apache-2.0
// Means over all of space: see global_average.hpp.
#include "src/nn/layers/global_average.hpp"

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

Shape GlobalAverage::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("global average of {} inputs", src.size()),
          "name one input for it");
  return {src[0].c, 1, 1, 1};
}

Box GlobalAverage::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  if (dst.empty()) return {};
  Box box = Box::whole(src[0]);
  box.lo[kC] = dst.lo[kC];
  box.hi[kC] = dst.hi[kC];
  return box;
}

Box GlobalAverage::contributes(std::span<const Box> src_local, std::span<const Shape>) const {
  return {{src_local[0].lo[kC], 0, 0, 0}, {src_local[0].hi[kC], 1, 1, 1}};
}

DataType GlobalAverage::dst_type(std::span<const DataType> src) const {
  require_type(src, type_, "global average");
  return DataType::kFloat32;
}

std::string GlobalAverage::kernel_name() const {
  return fmt::format("global average {}", name_of(type_));
}

std::int64_t GlobalAverage::forward_flops(std::span<const Shape> src) const {
  return src[0].volume();
}

void GlobalAverage::prepare(const LayerContext& context, std::vector<ParameterView>) {
  context_ = context;
  sums_ = ChannelSums(context.boxes.src_needed[0].extent(kC), 1);
}

double GlobalAverage::weight() const {
  const Shape& src = context_.src_shapes[0];
  return 1.0 / static_cast<double>(src.d * src.h * src.w);
}

void GlobalAverage::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                            const Box&) {
  const Box& box = context_.boxes.src_needed[0];
  const View to = dst.as<float>();
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    const std::int64_t channels = box.extent(kC);
    for (std::int64_t n = 0; n < to.batch; ++n) {
      const auto totals =
          sums_.over(box, n, 1, [&](auto sample, auto d, auto h, auto w, double* const sums) {
            const T* const x = from.data + from.offset(sample, box.lo[kC], d, h, w);
            for (std::int64_t c = 0; c < channels; ++c)
              sums[c] += static_cast<double>(static_cast<float>(x[c]));
          });
      for (std::int64_t c = 0; c < channels; ++c)
        to.at(n, box.lo[kC] + c, 0, 0, 0) =
            static_cast<float>(totals[static_cast<std::size_t>(c)] * weight());
    }
  });
}

void GlobalAverage::backward_data(const Pass&, const ForwardValues&, AnyConstView diff_dst,
                                  std::size_t, AnyView diff_src) {
  const Box& box = context_.boxes.src_needed[0];
  const ConstView from = diff_dst.as<float>();
  const auto scale = static_cast<float>(weight());
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto to = diff_src.as<T>();
    visit_runs(box, to.batch, false, [&](const Run& run) {
      const float* const dy = from.data + from.offset(run.n, box.lo[kC], 0, 0, 0);
      T* const dx = run.begin_in(to, box);
      for (std::int64_t c = 0; c < run.length; ++c) dx[c] = T(scale * dy[c]);
    });
  });
}

}  // namespace halomesh
