// SPDX-License-Identifier: Apache-2.0
// Synthetic images with labels: reproducible, of all classes, and different from sample to sample.
#include "src/synth/labelled_sample.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "error.hpp"

namespace halomesh {
namespace {

using Make = LabelledSample (*)(std::uint64_t, std::int64_t, const Shape&);
constexpr std::int64_t kSamples = 16;

/// The share of each class over several samples, each of which must be finite and its own.
std::array<double, kSynthClasses> shares(Make make, const Shape& shape) {
  std::array<double, kSynthClasses> count{};
  LabelledSample before;
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    LabelledSample made = make(7, sample, shape);
    REQUIRE(std::ssize(made.values) == shape.volume());
    REQUIRE(std::ssize(made.labels) == shape.volume() / shape.c);
    for (const std::uint8_t label : made.labels) {
      REQUIRE(label < kSynthClasses);
      count[label] += 1;
    }
    for (const float value : made.values) REQUIRE(std::isfinite(value));
    CHECK(made.values != before.values);
    CHECK(made.labels != before.labels);
    before = std::move(made);
  }
  const double all = static_cast<double>(kSamples * shape.volume() / shape.c);
  for (double& c : count) c /= all;
  return count;
}

TEST_CASE("labelled_sample: volumes have few organs and fewer lesions, at any extents") {
  for (const Shape& shape : {Shape{1, 32, 32, 32}, Shape{1, 24, 40, 33}}) {
    const auto share = shares(make_volume, shape);
    CHECK(share[1] > 0.01);
    CHECK(share[1] < 0.05);
    CHECK(share[2] > 0.001);
    CHECK(share[2] < 0.01);
  }
}

TEST_CASE("labelled_sample: climate images have few rivers and fewer cyclones") {
  const auto share = shares(make_climate, {16, 96, 1, 144});
  CHECK(share[1] > 0.001);
  CHECK(share[1] < 0.01);
  CHECK(share[2] > 0.01);
  CHECK(share[2] < 0.06);
}

TEST_CASE("labelled_sample: the same arguments give the same values, another seed others") {
  for (const auto& [make, shape] :
       {std::pair{Make{make_volume}, Shape{1, 20, 21, 22}}, {make_climate, {16, 40, 1, 36}}}) {
    const LabelledSample once = make(3, 5, shape), again = make(3, 5, shape),
                         other = make(4, 5, shape);
    CHECK(once.values == again.values);
    CHECK(once.labels == again.labels);
    CHECK(once.values != other.values);
  }
}

TEST_CASE("labelled_sample: columns of climate images are periodic, as the globe is") {
  const Shape shape{16, 64, 1, 96};
  // The step from the last column to the first is no larger than others, but for noise.
  double across = 0, within = 0;
  for (std::int64_t sample = 0; sample < 4; ++sample) {
    const LabelledSample made = make_climate(1, sample, shape);
    const auto at = [&](std::int64_t row, std::int64_t column) {
      return made.values[static_cast<std::size_t>((row * shape.w + column) * shape.c + 12)];
    };
    for (std::int64_t row = 0; row < shape.d; ++row) {
      across += std::abs(at(row, shape.w - 1) - at(row, 0));
      within += std::abs(at(row, shape.w / 2) - at(row, shape.w / 2 - 1));
    }
  }
  CHECK(across < 1.5 * within);
}

TEST_CASE("labelled_sample: shapes that cannot be are refused") {
  CHECK_THROWS_AS(make_volume(0, 0, {2, 32, 32, 32}), UsageError);
  CHECK_THROWS_AS(make_volume(0, 0, {1, 32, 8, 32}), UsageError);
  CHECK_THROWS_AS(make_climate(0, 0, {16, 96, 2, 144}), UsageError);
  CHECK_THROWS_AS(make_climate(0, 0, {15, 96, 1, 144}), UsageError);
}

}  // namespace
}  // namespace halomesh
