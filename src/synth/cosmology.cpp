// SPDX-License-Identifier: Apache-2.0
// Draws a universe's parameters and scales them to learning targets.
#include "src/synth/cosmology.hpp"

#include "narrow.hpp"
#include "rng.hpp"
#include "src/synth/random_streams.hpp"

namespace halomesh {
namespace {

double to_unit(double value, double centre, double spread) { return (value / centre - 1) / spread; }

}  // namespace

std::array<float, 4> unit_targets(const Cosmology& c, double spread) {
  const Cosmology centre;
  return {static_cast<float>(to_unit(c.omega_m, centre.omega_m, spread)),
          static_cast<float>(to_unit(c.sigma_8, centre.sigma_8, spread)),
          static_cast<float>(to_unit(c.n_s, centre.n_s, spread)),
          static_cast<float>(to_unit(c.h, centre.h, spread))};
}

Cosmology cosmology_from_unit(const std::array<double, 4>& unit, double spread) {
  const Cosmology centre;
  return {.omega_m = (1 + unit[0] * spread) * centre.omega_m,
          .sigma_8 = (1 + unit[1] * spread) * centre.sigma_8,
          .n_s = (1 + unit[2] * spread) * centre.n_s,
          .h = (1 + unit[3] * spread) * centre.h,
          .omega_b = centre.omega_b};
}

Cosmology draw_cosmology(std::uint64_t seed, std::int64_t universe, double spread) {
  const CounterRng rng(seed, RandomUse::kSynth, narrow<std::uint32_t>(universe),
                       kParameterSubstream);
  std::array<double, 4> unit{};
  for (std::size_t i = 0; i < unit.size(); ++i) unit[i] = 2 * rng.uniform_double(i) - 1;
  return cosmology_from_unit(unit, spread);
}

}  // namespace halomesh
