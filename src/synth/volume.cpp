// SPDX-License-Identifier: Apache-2.0
// Synthetic volumes of organs and lesions: see labelled_sample.hpp.
#include <algorithm>
#include <array>
#include <cmath>

#include "error.hpp"
#include "src/synth/labelled_sample.hpp"
#include "src/synth/random_streams.hpp"
#include "src/synth/smooth_noise.hpp"

namespace halomesh {
namespace {

using Point = std::array<double, 3>;  // d, h, w in fractions of the extents

/// An ellipsoid with an uneven surface.
struct Body {
  Point centre{}, radii{};
  double unevenness = 0;

  /// A measure of distance that is below 1 inside.
  double distance(const Point& at, const SmoothNoise& surface) const {
    double sum = 0;
    for (std::size_t a = 0; a < 3; ++a) {
      const double x = (at[a] - centre[a]) / radii[a];
      sum += x * x;
    }
    const double bump = unevenness * surface(8 * at[0], 8 * at[1], 8 * at[2]);
    return std::sqrt(sum) * (1 + bump);
  }
};

/// The bodies in one abdomen.
struct Anatomy {
  Body trunk, spine, liver;
  std::array<Body, 2> organs;
  std::vector<Body> lesions;
};

Anatomy draw_anatomy(DrawSequence& draw) {
  Anatomy a;
  a.trunk = {{0.5, 0.5, 0.5}, {1.5, draw.between(0.40, 0.46), draw.between(0.42, 0.48)}, 0.03};
  a.spine = {{0.5, draw.between(0.72, 0.76), draw.between(0.48, 0.52)}, {2, 0.07, 0.07}, 0.1};
  a.liver = {{draw.between(0.3, 0.6), 0.35, draw.between(0.28, 0.34)}, {0.24, 0.17, 0.17}, 0.15};
  for (std::size_t side = 0; side < 2; ++side) {
    const double w = side == 0 ? draw.between(0.24, 0.32) : draw.between(0.68, 0.76);
    Body& organ = a.organs[side];
    organ = {{draw.between(0.35, 0.65), draw.between(0.56, 0.64), w},
             {draw.between(0.17, 0.24), draw.between(0.09, 0.12), draw.between(0.08, 0.11)},
             0.15};
    if (draw.between(0, 1) < 0.25) continue;  // a healthy organ
    Body lesion{organ.centre, {}, 0.1};
    const double radius = draw.between(0.06, 0.10);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      lesion.centre[axis] += draw.between(-0.7, 0.7) * organ.radii[axis];
      lesion.radii[axis] = radius * draw.between(0.85, 1.15);
    }
    a.lesions.push_back(lesion);
  }
  return a;
}

struct Tissue {
  float intensity = 0;
  std::uint8_t label = 0;
};

Tissue tissue_at(const Anatomy& a, const Point& at, const SmoothNoise& surface) {
  const auto inside = [&](const Body& body) { return body.distance(at, surface) < 1; };
  if (std::any_of(a.lesions.begin(), a.lesions.end(), inside)) return {-0.3F, 2};
  if (std::any_of(a.organs.begin(), a.organs.end(), inside)) return {1.0F, 1};
  if (inside(a.spine)) return {2.3F, 0};
  if (inside(a.liver)) return {0.2F, 0};
  return {inside(a.trunk) ? -0.7F : -2.2F, 0};
}

}  // namespace

LabelledSample make_volume(std::uint64_t seed, std::int64_t sample, const Shape& shape) {
  constexpr std::int64_t kLeast = 16;
  if (shape.c != 1 || std::min({shape.d, shape.h, shape.w}) < kLeast)
    throw UsageError(fmt::format("volumes cannot have extents of {}", shape),
                     "give one channel and extents of 16 or more, such as 64x64x64x1");
  const auto stream = static_cast<std::uint32_t>(sample);
  const auto rng = [&](std::uint32_t substream) {
    return CounterRng(seed, RandomUse::kSynth, stream, substream);
  };
  DrawSequence draw(rng(kBodySubstream));
  const Anatomy anatomy = draw_anatomy(draw);
  const SmoothNoise surface(rng(kSmoothSubstream)), texture(rng(kSmoothSubstream + 1));
  const CounterRng noise = rng(kVoxelNoiseSubstream);
  constexpr float kLowest = -2.34F, kHighest = 2.64F;  // -79 and 304 Hounsfield units, clipped
  LabelledSample made;
  made.values.resize(static_cast<std::size_t>(shape.volume()));
  made.labels.resize(made.values.size());
#pragma omp parallel for schedule(static)
  for (std::int64_t d = 0; d < shape.d; ++d)
    for (std::int64_t h = 0; h < shape.h; ++h)
      for (std::int64_t w = 0; w < shape.w; ++w) {
        const auto centre = [](std::int64_t i, std::int64_t n) {
          return (static_cast<double>(i) + 0.5) / static_cast<double>(n);
        };
        const Point at{centre(d, shape.d), centre(h, shape.h), centre(w, shape.w)};
        const std::int64_t index = (d * shape.h + h) * shape.w + w;
        const Tissue tissue = tissue_at(anatomy, at, surface);
        const float value = tissue.intensity + 0.3F * texture(10 * at[0], 10 * at[1], 10 * at[2]) +
                            0.25F * normal_at(noise, index);
        made.values[static_cast<std::size_t>(index)] = std::clamp(value, kLowest, kHighest);
        made.labels[static_cast<std::size_t>(index)] = tissue.label;
      }
  return made;
}

}  // namespace halomesh
