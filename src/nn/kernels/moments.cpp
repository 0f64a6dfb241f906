// SPDX-License-Identifier: Apache-2.0
// First and second moments over all of space: see moments.hpp.
#include "src/nn/kernels/moments.hpp"

#include <type_traits>

#include "src/nn/kernels/float_types.hpp"
#include "src/nn/pack.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

Moments::Moments(std::int64_t groups, DataType type) : groups_(groups), type_(type) {
  require(groups >= 0, text("moments of {} groups of channels", groups),
          "use a positive number, or 0 for one group per channel");
}

std::int64_t Moments::channels_per_group(std::span<const Shape> src) const {
  return groups_ == 0 ? 1 : src[0].c / groups_;
}

Shape Moments::dst_shape(std::span<const Shape> src) const {
  require(src.size() == 1, text("moments of {} inputs", src.size()), "name one input for them");
  require(groups_ == 0 || src[0].c % groups_ == 0,
          text("moments of {} channels in {} groups", src[0].c, groups_),
          "the number of groups must divide the number of channels");
  return {2 * src[0].c / channels_per_group(src), 1, 1, 1};
}

Box Moments::needs(const Box& dst, std::size_t, std::span<const Shape> src) const {
  if (dst.empty()) return {};
  Box box = Box::whole(src[0]);
  box.lo[kC] = dst.lo[kC] / 2 * channels_per_group(src);
  box.hi[kC] = (dst.hi[kC] + 1) / 2 * channels_per_group(src);
  return box;
}

Box Moments::contributes(std::span<const Box> src_local, std::span<const Shape> src) const {
  const std::int64_t size = channels_per_group(src);
  return {{src_local[0].lo[kC] / size * 2, 0, 0, 0},
          {((src_local[0].hi[kC] - 1) / size + 1) * 2, 1, 1, 1}};
}

DataType Moments::dst_type(std::span<const DataType> src) const {
  require_type(src, type_, "moments");
  return DataType::kFloat64;
}

std::string Moments::kernel_name() const {
  return fmt::format("moments {}{}", groups_ == 0 ? "" : fmt::format("in {} groups ", groups_),
                     name_of(type_));
}

std::int64_t Moments::forward_flops(std::span<const Shape> src) const {
  return 3 * src[0].volume();
}

void Moments::prepare(const LayerContext& context, std::vector<ParameterView>) {
  context_ = context;
  const std::int64_t channels = context.boxes.src_needed[0].extent(kC);
  sums_ = ChannelSums(channels, 2);
  if (context.training) gradients_ = AlignedBuffer<double>(2 * channels);
}

double Moments::weight() const {
  const Shape& src = context_.src_shapes[0];
  return 1.0 / static_cast<double>(src.d * src.h * src.w * channels_per_group(context_.src_shapes));
}

void Moments::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                      const Box& chunk) {
  const Box& box = context_.boxes.src_needed[0];
  const std::int64_t channels = box.extent(kC), size = channels_per_group(context_.src_shapes);
  const auto to = dst.as<double>();
  clear(dst, chunk);
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const auto from = src[0].as<T>();
    for (std::int64_t n = 0; n < to.batch; ++n) {
      const auto totals =
          sums_.over(box, n, 1, [&](auto sample, auto d, auto h, auto w, double* const sums) {
            const T* const x = from.data + from.offset(sample, box.lo[kC], d, h, w);
            for (std::int64_t c = 0; c < channels; ++c) {
              const auto value = static_cast<double>(static_cast<float>(x[c]));
              sums[c] += value;
              sums[channels + c] += value * value;
            }
          });
      for (std::int64_t c = 0; c < channels; ++c) {
        double* const moments = &to.at(n, (box.lo[kC] + c) / size * 2, 0, 0, 0);
        moments[0] += totals[static_cast<std::size_t>(c)] * weight();
        moments[1] += totals[static_cast<std::size_t>(channels + c)] * weight();
      }
    }
  });
}

// Computes in fp64 to the end, as the two terms cancel where the mean is large. put(dx, diff) takes
// the diff of one element.
template <class Put>
void Moments::diffs_of_src(AnyConstView src, AnyConstView diff_dst, AnyView diff_src,
                           const Put& put) {
  const Box& box = context_.boxes.src_needed[0];
  const std::int64_t channels = box.extent(kC), size = channels_per_group(context_.src_shapes);
  const auto dy = diff_dst.as<double>();
  double* const gradients = gradients_.data();
  for (std::int64_t n = 0; n < dy.batch; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double* const moments = &dy.at(n, (box.lo[kC] + c) / size * 2, 0, 0, 0);
      gradients[c] = weight() * moments[0];
      gradients[channels + c] = 2 * weight() * moments[1];
    }
    with_float_type(type_, [&](auto zero) {
      using T = decltype(zero);
      const auto from = src.as<T>();
      const auto to = diff_src.as<T>();
      visit_runs(box, 1, false, [&](const Run& run) {
        const T* const x = from.data + from.offset(n, box.lo[kC], run.d, run.h, run.w);
        T* const dx = to.data + to.offset(n, box.lo[kC], run.d, run.h, run.w);
        for (std::int64_t c = 0; c < channels; ++c)
          put(dx[c], T(static_cast<float>(gradients[c] +
                                          gradients[channels + c] *
                                              static_cast<double>(static_cast<float>(x[c])))));
      });
    });
  }
}

void Moments::backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                            std::size_t, AnyView diff_src) {
  diffs_of_src(values.src[0], diff_dst, diff_src, [](auto& dx, auto diff) { dx = diff; });
}

void Moments::add_backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                                std::size_t, AnyView diff_src) {
  diffs_of_src(values.src[0], diff_dst, diff_src, [](auto& dx, auto diff) {
    dx = std::decay_t<decltype(diff)>(static_cast<float>(dx) + static_cast<float>(diff));
  });
}

}  // namespace halomesh
