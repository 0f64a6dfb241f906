// SPDX-License-Identifier: Apache-2.0
// Dropout: see dropout.hpp.
#include "src/nn/layers/dropout.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "narrow.hpp"
#include "rng.hpp"
#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {

Dropout::Dropout(double p, DataType type, bool whole_channels)
    : p_(p), type_(type), whole_channels_(whole_channels) {
  require(p >= 0.0 && p < 1.0, text("dropout with probability {:g}", p),
          "use a probability of at least 0 and below 1");
}

DataType Dropout::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, "dropout");
}

std::string Dropout::kernel_name() const {
  return fmt::format("dropout{} {}", whole_channels_ ? " of channels" : "", name_of(type_));
}

template <class T>
void Dropout::apply(const Pass& pass, TensorView<const T> from, TensorView<T> to,
                    const Box& box) const {
  const Shape& whole = context().dst_shape;
  // Positions along a row of pixels are consecutive only where the row has all global channels.
  const bool rows =
      !whole_channels_ && has_all_channels(box, from, to) && box.extent(kC) == whole.c;
  if (!pass.training || p_ == 0.0) {
    visit_runs(box, to.batch, rows, [&](const Run& run) {
      std::copy_n(run.begin_in(from, box), run.length, run.begin_in(to, box));
    });
    return;
  }
  const CounterRng rng(pass.seed, RandomUse::kDropout, narrow<std::uint32_t>(pass.step),
                       context().index);
  const auto scale = static_cast<float>(1.0 / (1.0 - p_));
  // A word of 32 random bits is kept when its upper 24 bits reach p * 2^24.
  const auto threshold = static_cast<std::uint32_t>(std::ceil(p_ * 0x1p24));
  visit_runs(box, to.batch, rows, [&](const Run& run) {
    const T* x = run.begin_in(from, box);
    T* y = run.begin_in(to, box);
    // The position in the global batch, in n,d,h,w,c order of the whole tensor, or n,c order.
    const std::int64_t sample = pass.first_sample + run.n;
    const std::int64_t pixel =
        whole_channels_ ? sample : ((sample * whole.d + run.d) * whole.h + run.h) * whole.w + run.w;
    const std::int64_t first = pixel * whole.c + box.lo[kC];
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t i = 0; i < run.length; ++i) {
      const auto position = static_cast<std::uint64_t>(first + i);
      if (i == 0 || position % 4 == 0) words = rng.block(position / 4);
      y[i] =
          (words[position % 4] >> 8) >= threshold ? T(static_cast<float>(x[i]) * scale) : T(0.0F);
    }
  });
}

void Dropout::forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
                      const Box& chunk) {
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    apply<T>(pass, src[0].as<T>(), dst.as<T>(), chunk);
  });
}

void Dropout::backward_data(const Pass& pass, const ForwardValues&, AnyConstView diff_dst,
                            std::size_t input, AnyView diff_src) {
  with_float_type(type_, [&](auto zero) {
    using T = decltype(zero);
    apply<T>(pass, diff_dst.as<T>(), diff_src.as<T>(), context().boxes.src_needed[input]);
  });
}

}  // namespace halomesh
