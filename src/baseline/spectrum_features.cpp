// SPDX-License-Identifier: Apache-2.0
// Power spectra as features: see spectrum_features.hpp.
#include "src/baseline/spectrum_features.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"

namespace halomesh {
namespace {

std::vector<std::int64_t> borders_of(std::int64_t n) {
  constexpr int kBorders = 14;
  std::vector<std::int64_t> borders;
  for (int i = 0; i < kBorders; ++i) {
    // The last border is set exactly: a power that rounds below n/2 would lose its bin.
    const double border = i == kBorders - 1 ? static_cast<double>(n) / 2
                                            : std::pow(static_cast<double>(n) / 2,
                                                       static_cast<double>(i) / (kBorders - 1));
    borders.push_back(static_cast<std::int64_t>(border));
  }
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

}  // namespace

BinnedPower::BinnedPower(std::int64_t n) : borders_(borders_of(n)), transform_(n) {}

std::vector<double> BinnedPower::of(SpectralGrid& grid) const {
  transform_.forward(grid);
  const std::int64_t n = grid.extent();
  std::vector<double> sums(borders_.size()), modes(borders_.size());
  for (std::int64_t d = 0; d < n; ++d)
    for (std::int64_t h = 0; h < n; ++h) {
      const std::int64_t k_d = frequency(d, n), k_h = frequency(h, n);
      const std::complex<double>* const row = grid.modes(d, h);
      std::size_t bin = 0;  // grows along the row
      for (std::int64_t w = 0; w < grid.half(); ++w) {
        const std::int64_t k_squared = k_d * k_d + k_h * k_h + w * w;
        if (k_squared == 0) continue;
        while (bin + 1 < borders_.size() && k_squared >= borders_[bin + 1] * borders_[bin + 1])
          ++bin;
        sums[bin] += std::norm(row[w]);
        ++modes[bin];
      }
    }
  for (std::size_t b = 0; b < sums.size(); ++b) sums[b] /= std::max(modes[b], 1.0);
  return sums;
}

SpectrumFeatures::SpectrumFeatures(std::int64_t n, std::int64_t channels)
    : channels_(channels), power_(n), grid_(n) {}

std::vector<double> SpectrumFeatures::of(std::span<const std::int16_t> counts_dhwc) {
  constexpr double kLeastPower = 1e-30;
  const std::int64_t n = grid_.extent(), voxels = n * n * n;
  require(std::ssize(counts_dhwc) == voxels * channels_,
          text("{} counts for {} channels of {}^3", counts_dhwc.size(), channels_, n));
  std::vector<double> features;
  features.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t c = 0; c < channels_; ++c) {
    const std::int16_t* const counts = counts_dhwc.data() + c;
    double sum = 0;
    for (std::int64_t i = 0; i < voxels; ++i) sum += counts[i * channels_];
    const double scale = sum > 0 ? static_cast<double>(voxels) / sum : 0;
    for (std::int64_t row = 0; row < n * n; ++row) {
      double* const to = grid_.row(row / n, row % n);
      for (std::int64_t w = 0; w < n; ++w) to[w] = counts[(row * n + w) * channels_] * scale - 1;
    }
    for (const double power : power_.of(grid_))
      features.push_back(std::log(std::max(power, kLeastPower)));
  }
  return features;
}

}  // namespace halomesh
