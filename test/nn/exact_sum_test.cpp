// SPDX-License-Identifier: Apache-2.0
// Sums without rounding errors: the same bits in any order and grouping, what they keep and lose,
// and what is too large for them.
#include "src/nn/exact_sum.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "rng.hpp"

namespace halomesh {
namespace {

using exact::kHighUnit;
using exact::kLargestTerm;
using exact::kLowUnit;

constexpr std::size_t kTerms = 20000;

/// Values of many magnitudes and both signs.
std::vector<float> terms_of(std::uint64_t seed) {
  const CounterRng rng(seed, RandomUse::kSynth);
  std::vector<float> terms;
  for (std::uint64_t i = 0; i < kTerms; ++i)
    terms.push_back(
        std::ldexp(2 * rng.uniform(2 * i) - 1, static_cast<int>(66 * rng.uniform(2 * i + 1)) - 60));
  return terms;
}

ExactSum sum_of(const std::vector<float>& terms, std::size_t lo, std::size_t hi) {
  ExactSum sum;
  for (std::size_t i = lo; i < hi; ++i) sum.add(static_cast<double>(terms[i]));
  return sum;
}

bool same(const ExactSum& a, const ExactSum& b) {
  return std::bit_cast<std::uint64_t>(a.high) == std::bit_cast<std::uint64_t>(b.high) &&
         std::bit_cast<std::uint64_t>(a.low) == std::bit_cast<std::uint64_t>(b.low);
}

TEST_CASE("an exact sum has the same bits in any order") {
  std::vector<float> terms = terms_of(1);
  const ExactSum expected = sum_of(terms, 0, kTerms);
  float plain = 0, backwards = 0;
  for (std::size_t i = 0; i < kTerms; ++i) plain += terms[i], backwards += terms[kTerms - 1 - i];
  CHECK(plain != backwards);  // where plain sums have not
  std::reverse(terms.begin(), terms.end());
  CHECK(same(sum_of(terms, 0, kTerms), expected));
  std::sort(terms.begin(), terms.end());
  CHECK(same(sum_of(terms, 0, kTerms), expected));
  std::sort(terms.begin(), terms.end(), [](float a, float b) { return std::abs(a) > std::abs(b); });
  CHECK(same(sum_of(terms, 0, kTerms), expected));
}

TEST_CASE("an exact sum has the same bits in any grouping") {
  const std::vector<float> terms = terms_of(2);
  const ExactSum expected = sum_of(terms, 0, kTerms);
  for (const std::size_t groups : {2U, 3U, 7U, 64U, 1000U}) {
    std::vector<ExactSum> sums;
    for (std::size_t g = 0; g < groups; ++g)
      sums.push_back(sum_of(terms, g * kTerms / groups, (g + 1) * kTerms / groups));
    ExactSum forwards, backwards;
    for (std::size_t g = 0; g < groups; ++g) forwards += sums[g], backwards += sums[groups - 1 - g];
    CHECK(same(forwards, expected));
    CHECK(same(backwards, expected));
  }
}

TEST_CASE("an exact sum is the sum, but for what is below its last bit") {
  const std::vector<float> terms = terms_of(3);
  long double expected = 0;  // 64 bits: errs by 2^-64 of at most 2^6 * kTerms
  for (const float term : terms) expected += static_cast<long double>(term);
  const double got = sum_of(terms, 0, kTerms).value();
  CHECK(std::abs(got - static_cast<double>(expected)) <=
        kTerms * (kLowUnit / 2 + 0x1p-43) + std::abs(got) * 0x1p-53);
  ExactSum cancelling;
  for (const double term : {50.0, 1e-12, -50.0, 3e-9, -3e-9}) cancelling.add(term);
  CHECK(std::abs(cancelling.value() - 1e-12) <= kLowUnit);
}

TEST_CASE("terms down to the last unit are kept whole; denormals and what is below count as zero") {
  for (const double term : {kLargestTerm, -kLargestTerm, 1.0, kHighUnit, kHighUnit / 2,
                            -kHighUnit / 2, 0x1.fffffep-30, kLowUnit, -kLowUnit}) {
    ExactSum sum;
    sum.add(term);
    CHECK(sum.value() == term);
  }
  for (const double term : {kLowUnit / 4, -kLowUnit / 4, 0x1p-100, static_cast<double>(0x1p-149F),
                            std::numeric_limits<double>::denorm_min(), 0.0, -0.0}) {
    ExactSum sum;
    sum.add(term);
    CHECK(sum.value() == 0);
    CHECK_FALSE(std::signbit(sum.value()));
  }
}

TEST_CASE("as many terms as large as are allowed are summed exactly") {
  // Each adds as much as it can to both bins.
  const double term = kLargestTerm - 0x1.7p0 * kHighUnit;
  ExactSum sum;
  for (std::int64_t i = 0; i < exact::kMostTerms; ++i) sum.add(term);
  const auto terms = static_cast<double>(exact::kMostTerms);
  CHECK(sum.high == std::nearbyint(term / kHighUnit) * kHighUnit * terms);
  CHECK(sum.low == (term - std::nearbyint(term / kHighUnit) * kHighUnit) * terms);
  CHECK(std::abs(sum.low) > 0.4 * kHighUnit * terms);
  for (std::int64_t i = 0; i < exact::kMostTerms; ++i) sum.add(-term);
  CHECK(same(sum, ExactSum{}));
}

TEST_CASE("a term that is too large is never lost from sight") {
  for (const double term :
       {kLargestTerm * (1 + 0x1p-50), -2 * kLargestTerm, 1e30,
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    ExactSum sum;
    sum.add(1);
    sum.add(term);
    sum.add(-term);
    CHECK(std::isnan(sum.value()));
    ExactSum other;
    other.add(2);
    other += sum;
    CHECK(std::isnan(other.value()));
  }
}

TEST_CASE("arrays of sums take their terms, and are rounded once") {
  std::vector<float> terms = terms_of(4);
  const std::vector<float> kept = terms;
  ExactSums sums(static_cast<std::int64_t>(kTerms));
  add_and_clear_terms(terms.data(), sums.size(), sums.view());
  CHECK(std::all_of(terms.begin(), terms.end(), [](float t) { return t == 0; }));
  sums.view().from(5).add(2, 1.0);
  std::vector<float> values(kTerms, NAN);
  CHECK(take_sums(sums.view(), sums.size(), values.data()));
  std::size_t compared = 0;
  for (std::size_t i = 0; i < kTerms; ++i, ++compared) {
    ExactSum expected;
    expected.add(static_cast<double>(kept[i]));
    if (i == 7) expected.add(1);
    CHECK(values[i] == static_cast<float>(expected.value()));
  }
  CHECK(compared == kTerms);
  CHECK(std::all_of(sums.bins().begin(), sums.bins().end(), [](double b) { return b == 0; }));
  sums.view().add(static_cast<std::int64_t>(kTerms) - 1, 1e9);
  CHECK_FALSE(take_sums(sums.view(), sums.size(), values.data()));
  CHECK(std::isnan(values.back()));
  CHECK(sums.bins().size() == 2 * kTerms);
}

}  // namespace
}  // namespace halomesh
