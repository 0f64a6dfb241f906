// SPDX-License-Identifier: Apache-2.0
// Regression: polynomials of second degree exactly, and the same from rows in two places.
#include "src/baseline/quadratic_regression.hpp"

#include <doctest/doctest.h>

#include <array>
#include <barrier>
#include <cmath>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "error.hpp"

using namespace halomesh;

namespace {

const AddUp kAlone = [](std::span<double>) {};

/// Rows of three features of unlike sizes; a fourth never changes.
Rows some_features(std::size_t count) {
  std::mt19937 noise(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Rows rows{4};
  for (std::size_t i = 0; i < count; ++i) {
    const double a = uniform(noise), b = uniform(noise), c = uniform(noise);
    rows.values.insert(rows.values.end(), {100 + 10 * a, 0.01 * (a + b), 5 - c, 7});
  }
  return rows;
}

/// Two quadratic polynomials of these.
std::vector<double> targets_of(std::span<const double> x) {
  const double a = (x[0] - 100) / 10, b = 100 * x[1] - a, c = 5 - x[2];
  return {0.5 - a + 2 * b * c + c * c, a * a - 3 * a * b + 0.25 * c};
}

Rows targets_of(const Rows& features) {
  Rows rows{2};
  for (std::size_t r = 0; r < features.count(); ++r)
    for (const double t : targets_of(features[r])) rows.values.push_back(t);
  return rows;
}

}  // namespace

TEST_CASE("a quadratic polynomial of the features is recovered exactly") {
  const Rows features = some_features(60);
  // The ridge only keeps the term of the feature that never changes from being undetermined.
  const QuadraticRegression regression(features, targets_of(features), kAlone, {14, 1e-10});
  int compared = 0;
  for (std::size_t r = 0; r < 60; ++r) {
    // Far from the rows as well.
    std::vector<double> x(features[r].begin(), features[r].end());
    x[0] += 30;
    const auto expected = targets_of(x), predicted = regression.predict(x);
    REQUIRE(predicted.size() == 2);
    for (std::size_t t = 0; t < 2; ++t, ++compared)
      CHECK(predicted[t] == doctest::Approx(expected[t]).epsilon(1e-7));
  }
  CHECK(compared == 120);
}

TEST_CASE("components of small variance are left out and the ridge shrinks") {
  const Rows features = some_features(60);
  const Rows targets = targets_of(features);
  const auto error_of = [&](const QuadraticRegression::Settings& settings) {
    const QuadraticRegression regression(features, targets, kAlone, settings);
    double squares = 0;
    for (std::size_t r = 0; r < features.count(); ++r)
      for (std::size_t t = 0; t < 2; ++t)
        squares += std::pow(regression.predict(features[r])[t] - targets[r][t], 2);
    return squares;
  };
  CHECK(error_of({14, 1e-10}) < 1e-12);
  CHECK(error_of({2, 1e-10}) > 1);
  CHECK(error_of({14, 0.1}) > 1e-6);
  CHECK(error_of({14, 1e6}) > 10);
}

// As between ranks, here two threads.
TEST_CASE("rows in several places give the regression of all of them") {
  const Rows features = some_features(40), targets = targets_of(features);
  const QuadraticRegression whole(features, targets, kAlone, {14, 0.1});
  std::barrier<> both(2);
  std::array<std::vector<double>, 2> sums;
  const auto fit = [&](std::size_t place) {
    const auto half = [place](const Rows& rows) {
      const auto middle = rows.values.begin() + static_cast<std::ptrdiff_t>(17 * rows.width);
      return place == 0 ? Rows{rows.width, {rows.values.begin(), middle}}
                        : Rows{rows.width, {middle, rows.values.end()}};
    };
    const AddUp add_up = [&](std::span<double> values) {
      sums[place].assign(values.begin(), values.end());
      both.arrive_and_wait();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = sums[0][i] + sums[1][i];
      both.arrive_and_wait();
    };
    return QuadraticRegression(half(features), half(targets), add_up, {14, 0.1});
  };
  std::optional<QuadraticRegression> first;
  std::thread other([&] { first = fit(0); });
  const QuadraticRegression second = fit(1);
  other.join();
  int compared = 0;
  for (std::size_t r = 0; r < features.count(); ++r)
    for (std::size_t t = 0; t < 2; ++t, ++compared) {
      CHECK(first->predict(features[r])[t] == second.predict(features[r])[t]);
      // 40 terms of up to some 10, and the condition of the equations, some 1e4.
      CHECK(std::abs(second.predict(features[r])[t] - whole.predict(features[r])[t]) < 1e-9);
    }
  CHECK(compared == 80);
}

TEST_CASE("a regression without rows, or of values that are not finite, is refused") {
  CHECK_THROWS_AS(QuadraticRegression(Rows{3}, Rows{1}, kAlone, {}), Error);
  Rows features = some_features(30);
  const Rows targets = targets_of(features);
  features.values[5] = NAN;
  CHECK_THROWS_AS(QuadraticRegression(features, targets, kAlone, {}), Error);
}
