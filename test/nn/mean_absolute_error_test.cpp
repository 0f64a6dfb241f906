// SPDX-License-Identifier: Apache-2.0
// The mean absolute error against literal numbers and difference quotients, whole and cut.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "src/nn/losses/registry.hpp"

namespace halomesh {
namespace {

const Shape kOutput{4, 1, 1, 1};

Tensor make(const std::vector<float>& values, const Box& box = Box::whole(kOutput)) {
  Tensor tensor(box, static_cast<std::int64_t>(values.size()) / box.volume());
  std::copy(values.begin(), values.end(), tensor.view().data);
  return tensor;
}

struct Result {
  double loss = 0;
  std::vector<float> diff;
};

Result run(const Tensor& p, const Tensor& t, std::int64_t global_batch) {
  Tensor diff(p.view().span, p.view().batch);
  Result result;
  result.loss =
      make_loss("mae", kOutput)->gradient(p.view(), t.view(), {}, global_batch, diff.view());
  result.diff.assign(diff.view().data, diff.view().data + p.view().batch * p.view().span.volume());
  return result;
}

// Errors: 0.5 -1 0 2 | 0.25 0 0 -0.5, all exact in binary.
const std::vector<float> kPredicted{0.5F, 0, 1, 3, 0.25F, 1, 2, 0},
    kTrue{0, 1, 1, 1, 0, 1, 2, 0.5F};

}  // namespace

TEST_CASE("the mean absolute error of two samples by hand") {
  const Tensor p = make(kPredicted), t = make(kTrue);
  const Result result = run(p, t, 2);
  CHECK(result.loss == 4.25 / 8);
  CHECK(result.diff == std::vector<float>{0.125F, -0.125F, 0, 0.125F, 0.125F, 0, 0, -0.125F});
  const auto loss = make_loss("mae", kOutput);
  CHECK(loss->score() == Score::kMae);
  std::vector<double> sums(2 * loss->sums_per_sample()), terms(loss->sums_per_sample());
  loss->add_sums(p.view(), t.view(), sums);
  for (std::size_t i = 0; i < sums.size(); ++i) terms[i % terms.size()] += sums[i];
  CHECK(loss->quality(terms).loss == 4.25 / 8);
  CHECK(loss->quality(terms).score == 4.25 / 8);
}

TEST_CASE("the gradient of the mean absolute error is its difference quotient") {
  // Away from equal values it is piecewise linear, and all numbers are exact in binary.
  for (const std::size_t i : {0U, 1U, 3U, 4U, 7U}) {
    std::vector<float> up = kPredicted, down = kPredicted;
    up[i] += 0x1p-5F;
    down[i] -= 0x1p-5F;
    const double quotient =
        (run(make(up), make(kTrue), 2).loss - run(make(down), make(kTrue), 2).loss) / 0x1p-4;
    CHECK(quotient == static_cast<double>(run(make(kPredicted), make(kTrue), 2).diff[i]));
  }
}

TEST_CASE("the mean absolute error of parts and replicas adds up, and NaN stays") {
  double loss = 0;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::int64_t c = 0; c < 4; ++c) {
      const Box box{{c, 0, 0, 0}, {c + 1, 1, 1, 1}};
      const auto at = 4 * n + static_cast<std::size_t>(c);
      const Tensor p = make({kPredicted[at]}, box), t = make({kTrue[at]}, box);
      loss += run(p, t, 2).loss;
    }
  CHECK(loss == 4.25 / 8);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Result bad = run(make({nan, 0, 0, 0}), make({0, 0, 0, 0}), 1);
  CHECK(std::isnan(bad.loss));
  CHECK(std::isnan(bad.diff[0]));
  CHECK(bad.diff[1] == 0);
}

}  // namespace halomesh
