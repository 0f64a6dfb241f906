// SPDX-License-Identifier: Apache-2.0
// Generated samples: see bench_input.hpp.
#include "src/apps/bench/bench_input.hpp"

#include <algorithm>
#include <cmath>

#include "narrow.hpp"
#include "rng.hpp"
#include "src/nn/counts.hpp"

namespace halomesh {

GeneratedReader::GeneratedReader(std::uint64_t seed, const Shape& shape, std::int64_t classes,
                                 std::int64_t sample_classes)
    : seed_(seed),
      shape_(shape),
      classes_(narrow<std::uint32_t>(classes)),
      sample_classes_(narrow<std::uint32_t>(sample_classes)) {
  std::array<std::int16_t, 256> quantiles{};
  std::int16_t count = 0;
  double probability = std::exp(-1.0), below = probability;
  for (std::size_t k = 0; k < quantiles.size(); ++k) {
    for (const double quantile = (static_cast<double>(k) + 0.5) / 256; below < quantile;) {
      probability /= ++count;
      below += probability;
    }
    quantiles[k] = count;
  }
  const CounterRng rng(seed, RandomUse::kSynth);
  for (std::int64_t i = 0; i < kOffsets + shape.w * shape.c; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    counts_.push_back(quantiles[rng.block(index / 4)[index % 4] >> 24U]);
    logarithms_.push_back(log_table()[static_cast<std::size_t>(counts_.back())]);
  }
}

template <class T>
void GeneratedReader::fill(std::int64_t sample, TensorView<T> dst,
                           const std::vector<T>& table) const {
  const CounterRng rng(seed_, RandomUse::kSynth, narrow<std::uint32_t>(sample), 1);
  const Box& box = dst.span;
  const bool all_channels = box.extent(kC) == shape_.c;
  T* out = dst.data;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h) {
      const auto offset = rng.block(static_cast<std::uint64_t>(d * shape_.h + h))[0] % kOffsets;
      const T* const row = table.data() + offset + box.lo[kW] * shape_.c + box.lo[kC];
      if (all_channels) {
        out = std::copy_n(row, box.extent(kW) * shape_.c, out);
        continue;
      }
      for (std::int64_t w = 0; w < box.extent(kW); ++w)
        out = std::copy_n(row + w * shape_.c, box.extent(kC), out);
    }
}

void GeneratedReader::fill_labels(std::int64_t sample, TensorView<std::uint8_t> labels) const {
  const CounterRng rng(seed_, RandomUse::kSynth, narrow<std::uint32_t>(sample), 2);
  const Box& box = labels.span;
  std::uint8_t* out = labels.data;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
        *out++ = static_cast<std::uint8_t>(
            rng.block(static_cast<std::uint64_t>((d * shape_.h + h) * shape_.w + w))[0] % classes_);
}

void GeneratedReader::read(std::int64_t sample, AnyView dst, AnyView targets) {
  if (dst.type == DataType::kInt16)
    fill(sample, dst.as<std::int16_t>(), counts_);
  else
    fill(sample, dst.as<float>(), logarithms_);
  if (targets.span.empty()) return;
  if (targets.type == DataType::kUint8) return fill_labels(sample, targets.as<std::uint8_t>());
  const CounterRng rng(seed_, RandomUse::kSynth, narrow<std::uint32_t>(sample), 2);
  for (std::int64_t t = targets.span.lo[kC]; t < targets.span.hi[kC]; ++t) {
    const auto index = static_cast<std::uint64_t>(t);
    targets.as<float>().at(0, t, 0, 0, 0) =
        sample_classes_ > 0 ? static_cast<float>(rng.block(index)[0] % sample_classes_)
                            : 2 * rng.uniform(index) - 1;
  }
}

}  // namespace halomesh
