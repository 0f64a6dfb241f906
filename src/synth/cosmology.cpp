// The draw of a universe's parameters and their scaling to learning targets.
// Knows nothing of fields, particles or files.
#include "src/synth/cosmology.hpp"

#include "narrow.hpp"
#include "rng.hpp"
#include "src/synth/random_streams.hpp"

namespace halomesh {
namespace {

double to_unit(double value, double centre) { return (value / centre - 1) / kParameterSpread; }
double from_unit(double unit, double centre) { return (1 + unit * kParameterSpread) * centre; }

}  // namespace

std::array<float, 4> unit_targets(const Cosmology& c) {
  const Cosmology centre;
  return {static_cast<float>(to_unit(c.omega_m, centre.omega_m)),
          static_cast<float>(to_unit(c.sigma_8, centre.sigma_8)),
          static_cast<float>(to_unit(c.n_s, centre.n_s)),
          static_cast<float>(to_unit(c.h, centre.h))};
}

Cosmology cosmology_from_unit(const std::array<double, 4>& unit) {
  const Cosmology centre;
  return {.omega_m = from_unit(unit[0], centre.omega_m),
          .sigma_8 = from_unit(unit[1], centre.sigma_8),
          .n_s = from_unit(unit[2], centre.n_s),
          .h = from_unit(unit[3], centre.h),
          .omega_b = centre.omega_b};
}

Cosmology draw_cosmology(std::uint64_t seed, std::int64_t universe) {
  const CounterRng rng(seed, RandomUse::kSynth, narrow<std::uint32_t>(universe),
                       kParameterSubstream);
  std::array<double, 4> unit{};
  for (std::size_t i = 0; i < unit.size(); ++i) unit[i] = 2 * rng.uniform_double(i) - 1;
  return cosmology_from_unit(unit);
}

}  // namespace halomesh
