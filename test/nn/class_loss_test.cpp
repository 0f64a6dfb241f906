// SPDX-License-Identifier: Apache-2.0
// Losses and scores of classes of samples against plain formulas, difference quotients and counts
// of pairs; whole and cut.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "error.hpp"
#include "src/nn/class_scores.hpp"
#include "src/nn/losses/registry.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kOutputs = 3, kBatch = 5;
const Shape kVector{kOutputs, 1, 1, 1};

struct Case {
  std::unique_ptr<Loss> loss;
  std::vector<float> outputs, labels;
  std::vector<double> weights{1, 1, 1};
  bool binary = false;

  Case(const std::string& name, LossSettings settings = {})
      : loss(make_loss(name, kVector, settings)), binary(name == "bce") {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 3);
    for (std::int64_t i = 0; i < kBatch * kOutputs; ++i) outputs.push_back(normal(random));
    for (std::int64_t i = 0; i < kBatch * loss->target_shape().c; ++i)
      labels.push_back(static_cast<float>(random() % static_cast<unsigned>(binary ? 2 : 3)));
    if (!settings.weights.empty()) weights = settings.weights;
  }

  /// The loss by its formula, in fp64.
  double expected(const std::vector<float>& z) const {
    double loss_sum = 0;
    for (std::size_t n = 0; n < kBatch; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < kOutputs; ++k) {
        const double y = z[n * kOutputs + k], t = binary ? labels[n * kOutputs + k] : 0.0F;
        const double p = 1 / (1 + std::exp(-y));
        sum += std::exp(y);
        if (binary) loss_sum -= (t * std::log(p) + (1 - t) * std::log(1 - p)) / kOutputs;
      }
      if (binary) continue;
      const auto label = static_cast<std::size_t>(labels[n]);
      loss_sum -= weights[label] * std::log(std::exp(double{z[n * kOutputs + label]}) / sum);
    }
    return loss_sum / kBatch;
  }

  double gradient(std::vector<float>& diff) const {
    diff.resize(outputs.size());
    const Box targets = Box::whole(loss->target_shape());
    return loss->gradient(ConstView{outputs.data(), Box::whole(kVector), kBatch},
                          ConstView{labels.data(), targets, kBatch}, {}, kBatch,
                          View{diff.data(), Box::whole(kVector), kBatch});
  }
};

/// The share of pairs in order, counted one by one.
double counted_pairs(const std::vector<double>& scores, const std::vector<std::uint8_t>& positive) {
  double wins = 0, pairs = 0;
  for (std::size_t a = 0; a < scores.size(); ++a)
    for (std::size_t b = 0; b < scores.size(); ++b) {
      if (positive[a] == 0 || positive[b] != 0) continue;
      pairs += 1;
      wins += scores[a] > scores[b] ? 1 : scores[a] == scores[b] ? 0.5 : 0;
    }
  return wins / pairs;
}

}  // namespace

TEST_CASE("losses of classes of samples are their formulas, and gradients their slopes") {
  for (const Case& each : {Case("ce"), Case("bce"), Case("ce", {.weights = {0.5, 2, 1.25}})}) {
    CAPTURE(each.binary);
    std::vector<float> diff;
    CHECK(each.gradient(diff) == doctest::Approx(each.expected(each.outputs)).epsilon(1e-13));
    for (std::size_t i = 0; i < diff.size(); ++i) {
      std::vector<float> up = each.outputs, down = each.outputs;
      up[i] += 0x1p-10F;
      down[i] -= 0x1p-10F;
      const double slope = (each.expected(up) - each.expected(down)) /
                           (static_cast<double>(up[i]) - static_cast<double>(down[i]));
      CHECK(static_cast<double>(diff[i]) == doctest::Approx(slope).epsilon(1e-5).scale(1e-3));
    }
  }
}

TEST_CASE("outputs far from 0 have finite losses of classes, and NaN stays") {
  Case each("bce");
  std::fill(each.outputs.begin(), each.outputs.end(), 1000.0F);
  std::fill(each.labels.begin(), each.labels.end(), 0.0F);
  std::vector<float> diff;
  CHECK(each.gradient(diff) == 1000);
  Case classes("ce");
  classes.outputs = {1000, -1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  classes.labels = {1, 0, 0, 0, 0};
  CHECK(classes.gradient(diff) == doctest::Approx((2000 + 4 * std::log(3.0)) / 5));
  classes.outputs[4] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(classes.gradient(diff)));
}

TEST_CASE("labels without a class, and outputs without two, are refused") {
  std::vector<float> diff;
  for (const float label : {3.0F, -1.0F, 0.5F}) {
    Case each("ce");
    each.labels[2] = label;
    CHECK_THROWS_AS(each.gradient(diff), Error);
  }
  CHECK_THROWS_AS(make_loss("ce", {1, 1, 1, 1}), Error);
  CHECK(make_loss("bce", {1, 1, 1, 1})->sample_classes() == 2);
  CHECK(make_loss("ce", {2, 4, 4, 4})->target_type() == DataType::kUint8);  // of voxels
}

TEST_CASE("the quality of classes of samples is that of all samples, added part by part") {
  for (const char* name : {"ce", "bce"}) {
    Case each(name);
    const std::size_t width = each.loss->sums_per_sample();
    std::vector<double> sums(width * kBatch);
    for (std::int64_t n = 0; n < kBatch; ++n)
      for (std::int64_t c = 0; c < (each.binary ? kOutputs : 1); ++c) {
        const Box box = each.binary ? Box{{c, 0, 0, 0}, {c + 1, 1, 1, 1}} : Box::whole(kVector);
        const auto labels = each.loss->target_shape().c;
        each.loss->add_sums(
            ConstView{&each.outputs[static_cast<std::size_t>(n * kOutputs + c)], box, 1},
            ConstView{&each.labels[static_cast<std::size_t>(n * labels + c)],
                      each.loss->target_box(box), 1},
            std::span(sums).subspan(static_cast<std::size_t>(n) * width, width));
      }
    const Quality quality = each.loss->quality(sums);
    CHECK(quality.samples == kBatch);
    CHECK(quality.loss == doctest::Approx(each.expected(each.outputs)).epsilon(1e-13));
    std::int64_t right = 0;
    for (std::size_t n = 0; n < kBatch; ++n) {
      const float* const z = &each.outputs[n * kOutputs];
      for (std::size_t k = 0; each.binary && k < kOutputs; ++k)
        right += (z[k] > 0) == (each.labels[n * kOutputs + k] == 1) ? 1 : 0;
      if (!each.binary && std::max_element(z, z + kOutputs) - z == std::lround(each.labels[n]))
        ++right;
    }
    CHECK(quality.score == static_cast<double>(right) / static_cast<double>(each.labels.size()));
    CHECK(quality.labels->confusion.size() == (each.binary ? 3 : 1));
    std::vector<float> p(each.outputs.begin(), each.outputs.begin() + kOutputs);
    each.loss->to_probabilities(p);
    for (std::size_t k = 0; k < kOutputs; ++k)
      CHECK(static_cast<double>(p[k]) == doctest::Approx(sums[k]).epsilon(1e-6));
  }
}

TEST_CASE("the area under the curve counts pairs, ties as halves") {
  std::mt19937 random(3);
  for (const unsigned values : {3U, 1000U}) {
    std::vector<double> scores;
    std::vector<std::uint8_t> positive;
    for (int i = 0; i < 60; ++i) {
      scores.push_back(static_cast<double>(random() % values));
      positive.push_back(random() % 3 == 0 ? 1 : 0);
    }
    CHECK(area_under_curve(scores, positive) == counted_pairs(scores, positive));
  }
  CHECK(std::isnan(area_under_curve(std::vector<double>{1, 2}, std::vector<std::uint8_t>{1, 1})));
}

TEST_CASE("scores of three classes by hand") {
  // Labels 0 0 0 1 2, predicted 0 0 1 1 0: class 2 is never found.
  const std::vector<double> p{.8, .1, .1, .6, .3, .1, .3, .5, .2, .2, .7, .1, .5, .2, .3};
  const ClassScores scores = class_scores(p, std::vector<std::int64_t>{0, 0, 0, 1, 2}, 5, 3);
  CHECK(scores.accuracy == 3.0 / 5);
  CHECK(scores.balanced_accuracy == doctest::Approx((2.0 / 3 + 1 + 0) / 3));
  CHECK(scores.auc == doctest::Approx((5.0 / 6 + 1 + 1) / 3));
  CHECK(scores.confusion[0] == ConfusionMatrix{{2, 1, 0}, {0, 1, 0}, {1, 0, 0}});
  CHECK_FALSE(scores.is_constant());
}

}  // namespace halomesh
