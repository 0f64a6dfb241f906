// Samples out of nothing: see bench_input.hpp.
#include "src/apps/bench_input.hpp"

#include <cmath>

#include "narrow.hpp"
#include "rng.hpp"

namespace halomesh {

GeneratedReader::GeneratedReader(std::uint64_t seed, const Shape& shape)
    : seed_(seed), shape_(shape) {
  std::int16_t count = 0;
  double probability = std::exp(-1.0), below = probability;
  for (std::size_t k = 0; k < counts_.size(); ++k) {
    for (const double quantile = (static_cast<double>(k) + 0.5) / 256; below < quantile;) {
      probability /= ++count;
      below += probability;
    }
    counts_[k] = count;
    logarithms_[k] = static_cast<float>(std::log1p(static_cast<double>(count)));
  }
}

// One block of the generator gives 16 bytes, for 16 consecutive elements of the sample.
template <class T>
void GeneratedReader::fill(std::int64_t sample, TensorView<T> dst,
                           const std::array<T, 256>& values) const {
  const CounterRng rng(seed_, RandomUse::kSynth, narrow<std::uint32_t>(sample), 0);
  const Box& box = dst.span;
  T* out = dst.data;
  std::array<std::uint32_t, 4> block{};
  std::int64_t block_index = -1;
  for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
    for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
      for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w)
        for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c) {
          const std::int64_t index = ((d * shape_.h + h) * shape_.w + w) * shape_.c + c;
          if (index / 16 != block_index) {
            block_index = index / 16;
            block = rng.block(static_cast<std::uint64_t>(block_index));
          }
          const auto place = static_cast<std::uint32_t>(index % 16);
          *out++ = values[(block[place / 4] >> (8 * (place % 4))) & 0xFFU];
        }
}

void GeneratedReader::read(std::int64_t sample, AnyView dst, std::span<float> targets) {
  if (dst.type == DataType::kInt16)
    fill(sample, dst.as<std::int16_t>(), counts_);
  else
    fill(sample, dst.as<float>(), logarithms_);
  const CounterRng rng(seed_, RandomUse::kSynth, narrow<std::uint32_t>(sample), 1);
  for (std::size_t t = 0; t < targets.size(); ++t) targets[t] = 2 * rng.uniform(t) - 1;
}

}  // namespace halomesh
