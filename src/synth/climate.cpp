// SPDX-License-Identifier: Apache-2.0
// Synthetic maps of the atmosphere: see labelled_sample.hpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "error.hpp"
#include "src/synth/labelled_sample.hpp"
#include "src/synth/random_streams.hpp"
#include "src/synth/smooth_noise.hpp"

namespace halomesh {
namespace {

/// A channel: its mean at the equator and the changes towards the poles, by the weather
/// (amplitude), at the centre of a cyclone and at the axis of a river.
struct Channel {
  float mean, poles, weather, cyclone, river;
};
constexpr std::array<Channel, kClimateChannels> kChannels{{
    {32, -28, 8, 25, 24},                    // TMQ: water vapour of the column, kg/m2
    {0, 0, 9, 0, 0},                         // U850: wind to the east at 850 hPa, m/s
    {0, 0, 7, 0, 0},                         // V850: wind to the north
    {0, 0, 6, 0, 0},                         // UBOT: wind to the east at the lowest level
    {0, 0, 5, 0, 0},                         // VBOT
    {0.016F, -0.014F, 2e-3F, 4e-3F, 2e-3F},  // QREFHT: humidity, kg/kg
    {98000, -5000, 2500, -4500, -400},       // PS: surface pressure, Pa
    {101200, -600, 900, -4500, -400},        // PSL: at sea level
    {218, -6, 3, 4, 0},                      // T200: temperature, K
    {268, -30, 4, 6, 2},                     // T500
    {3e-8F, -2e-8F, 2e-8F, 3e-7F, 1.2e-7F},  // PRECT: rain, m/s
    {300, -50, 5, -1, 1},                    // TS: surface temperature
    {299, -50, 5, -1, 1},                    // TREFHT
    {100, -60, 70, -350, -40},               // Z1000: height of 1000 hPa, m
    {12400, -1500, 120, -60, 20},            // Z200
    {66, -8, 2, 0, 0},                       // ZBOT: height of the lowest level
}};
constexpr std::size_t kU850 = 1, kV850 = 2, kUbot = 3, kVbot = 4;

/// Rows and columns in units of the number of rows; columns repeat after `width`.
struct Cyclone {
  double row, column, radius, spin;
};
struct River {
  double row, column, length, slope, bend, width;
};

struct Weather {
  double width = 0;
  std::vector<Cyclone> cyclones;
  std::vector<River> rivers;

  double across(double a, double b) const {  // shortest way around the globe
    const double x = std::remainder(a - b, width);
    return x;
  }
};

Weather draw_weather(DrawSequence& draw, double width) {
  Weather weather;
  weather.width = width;
  const auto hemisphere = [&] { return draw.integer(0, 1) == 0 ? -1.0 : 1.0; };
  for (std::int64_t left = draw.integer(2, 4); left > 0; --left) {
    const double side = hemisphere();  // cyclones lie near the tropics and turn by hemisphere
    weather.cyclones.push_back({0.5 + side * draw.between(0.06, 0.17), draw.between(0, width),
                                draw.between(0.016, 0.026), -side * draw.between(25, 40)});
  }
  for (std::int64_t left = draw.integer(2, 4); left > 0; --left) {
    const double side = hemisphere();
    weather.rivers.push_back({0.5 + side * 0.10, draw.between(0, width),
                              side * draw.between(0.20, 0.30), draw.between(0.7, 1.6),
                              draw.between(-0.05, 0.05), draw.between(0.012, 0.020)});
  }
  return weather;
}

/// The effect of cyclones and rivers at one place.
struct Effect {
  double cyclone = 0, river = 0;  // shares of their full effect
  double u = 0, v = 0;            // winds, m/s
  std::uint8_t label = 0;
};

void add_river(const Weather& weather, const River& r, double row, double column, Effect& effect) {
  const double along = (row - r.row) / r.length;  // 0 at its root in the tropics, 1 at its end
  if (along < -0.1 || along > 1.1) return;
  const double axis =
      r.column + r.slope * std::abs(r.length) * along + r.bend * std::sin(6.2831853 * along);
  const double sine = 1 / std::sqrt(1 + r.slope * r.slope);  // sine of its angle to a row
  const double distance = weather.across(column, axis) * sine / r.width;
  const double ends = std::clamp(10 * std::min(along + 0.1, 1.1 - along), 0.0, 1.0);
  const double share = ends * std::exp(-0.5 * distance * distance);
  effect.river = std::max(effect.river, share);
  effect.u += 18 * share * r.slope * sine;
  effect.v += 18 * share * sine * (r.length < 0 ? 1 : -1);  // away from the equator
  if (std::abs(distance) < 1.3 && along >= 0 && along <= 1) effect.label = 2;
}

void add_cyclone(const Weather& weather, const Cyclone& c, double row, double column,
                 Effect& effect) {
  const double y = (row - c.row) / c.radius, x = weather.across(column, c.column) / c.radius;
  const double square = x * x + y * y;
  if (square > 36) return;
  effect.cyclone += std::exp(-0.5 * square);
  const double speed = c.spin * std::exp(0.5 - 0.5 * square);
  effect.u += speed * y;
  effect.v += speed * x;
  if (square < 1.8) effect.label = 1;
}

Effect effect_at(const Weather& weather, double row, double column) {
  Effect effect;
  for (const River& r : weather.rivers) add_river(weather, r, row, column, effect);
  for (const Cyclone& c : weather.cyclones) add_cyclone(weather, c, row, column, effect);
  return effect;
}

/// Eddies in two sizes and noise, by channel.
struct Eddies {
  std::int64_t wide_around, narrow_around;  // whole numbers of them around the globe
  std::vector<SmoothNoise> wide{}, narrow{};
  CounterRng noise;

  float at(std::size_t c, double row, double turn, std::int64_t index) const {
    return 0.7F * wide[c](6 * row, 0, turn * static_cast<double>(wide_around)) +
           0.4F * narrow[c](16 * row, 0, turn * static_cast<double>(narrow_around)) +
           0.1F * normal_at(noise, index);
  }
};

/// The value of a channel at `row` from pole to pole, where the weather has this `effect`.
float climate_value(std::size_t c, double row, const Effect& effect, float eddies) {
  const Channel& channel = kChannels[c];
  const double sine = std::sin(3.14159265 * (row - 0.5));
  float value = channel.mean + channel.poles * static_cast<float>(sine * sine) +
                channel.weather * eddies + channel.cyclone * static_cast<float>(effect.cyclone) +
                channel.river * static_cast<float>(effect.river);
  if (c == kU850 || c == kUbot) value += static_cast<float>(effect.u);
  if (c == kV850 || c == kVbot) value += static_cast<float>(effect.v);
  return value;
}

}  // namespace

LabelledSample make_climate(std::uint64_t seed, std::int64_t sample, const Shape& shape) {
  constexpr std::int64_t kLeast = 32;
  if (shape.c != kClimateChannels || shape.h != 1 || std::min(shape.d, shape.w) < kLeast)
    throw UsageError(fmt::format("climate images cannot have extents of {}", shape),
                     "give 32 rows and columns or more and 16 channels, such as 96x1x144x16");
  const auto stream = static_cast<std::uint32_t>(sample);
  const auto rng = [&](std::uint32_t substream) {
    return CounterRng(seed, RandomUse::kSynth, stream, substream);
  };
  DrawSequence draw(rng(kBodySubstream));
  const auto rows = static_cast<double>(shape.d);
  const double width = static_cast<double>(shape.w) / rows;
  const Weather weather = draw_weather(draw, width);
  // Six and sixteen eddies from pole to pole.
  const auto around = [&](double eddies) {
    return std::max<std::int64_t>(1, std::llround(eddies * width));
  };
  Eddies eddies{
      .wide_around = around(6), .narrow_around = around(16), .noise = rng(kVoxelNoiseSubstream)};
  for (std::uint32_t c = 0; c < kClimateChannels; ++c) {
    eddies.wide.emplace_back(rng(kSmoothSubstream + 2 * c), eddies.wide_around);
    eddies.narrow.emplace_back(rng(kSmoothSubstream + 2 * c + 1), eddies.narrow_around);
  }
  LabelledSample made;
  made.values.resize(static_cast<std::size_t>(shape.volume()));
  made.labels.resize(static_cast<std::size_t>(shape.d * shape.w));
#pragma omp parallel for schedule(static)
  for (std::int64_t d = 0; d < shape.d; ++d)
    for (std::int64_t w = 0; w < shape.w; ++w) {
      const double row = (static_cast<double>(d) + 0.5) / rows,
                   column = (static_cast<double>(w) + 0.5) / rows;
      const Effect effect = effect_at(weather, row, column);
      const std::int64_t pixel = d * shape.w + w;
      made.labels[static_cast<std::size_t>(pixel)] = effect.label;
      for (std::size_t c = 0; c < kChannels.size(); ++c) {
        const std::int64_t index = pixel * kClimateChannels + static_cast<std::int64_t>(c);
        made.values[static_cast<std::size_t>(index)] =
            climate_value(c, row, effect, eddies.at(c, row, column / width, index));
      }
    }
  return made;
}

}  // namespace halomesh
