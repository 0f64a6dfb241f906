// SPDX-License-Identifier: Apache-2.0
// Sums without rounding errors, which therefore depend neither on the order of the terms nor on
// their grouping. Must not depend on the meaning of the terms.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "src/nn/tensor.hpp"

namespace halomesh {

/// for up to kMostTerms terms of up to kLargestTerm. A remainder below half of kLowUnit counts as
/// zero. A larger term, an infinity or a NaN makes the sum a NaN, whatever is added to it.
namespace exact {

constexpr double kHighUnit = 0x1p-24, kLowUnit = 0x1p-55;
constexpr double kLargestTerm = 64;
constexpr std::int64_t kMostTerms = std::int64_t{1} << 22;

/// A constant whose addition and subtraction rounds a term of either sign to a multiple of the
/// unit.
constexpr double kToHigh = 0x1.8p52 * kHighUnit, kToLow = 0x1.8p52 * kLowUnit;

/// Adds one term.
[[gnu::always_inline]] inline void add(double term, double& high, double& low) {
  constexpr double kInvalid = std::numeric_limits<double>::quiet_NaN();
  const double cut = (term + kToHigh) - kToHigh;
  const double rest = ((term - cut) + kToLow) - kToLow;
  high += std::abs(term) <= kLargestTerm ? cut : kInvalid;
  low += rest;
}

/// The sum, rounded.
inline double value(double high, double low) { return high + low; }

}  // namespace exact

/// One sum.
struct ExactSum {
  double high = 0, low = 0;

  void add(double term) { exact::add(term, high, low); }
  ExactSum& operator+=(const ExactSum& other) {
    high += other.high;
    low += other.low;
    return *this;
  }
  double value() const { return exact::value(high, low); }
};

/// The two bins of each of an array of sums; not owned.
struct ExactView {
  double *high = nullptr, *low = nullptr;

  explicit operator bool() const { return high != nullptr; }
  ExactView from(std::int64_t index) const { return {high + index, low + index}; }
  void add(std::int64_t index, double term) const { exact::add(term, high[index], low[index]); }
};

/// An array of sums, zero at first.
class ExactSums {
 public:
  ExactSums() = default;
  explicit ExactSums(std::int64_t count) : bins_(2 * count), count_(count) {}
  std::int64_t size() const { return count_; }
  ExactView view() { return {bins_.data(), bins_.data() + count_}; }
  /// Both bins of all sums.
  std::span<double> bins() { return bins_.span(); }

 private:
  AlignedBuffer<double> bins_;
  std::int64_t count_ = 0;
};

/// Adds terms[i] to sum i for i in [0, count) and sets it to zero. Uses only the calling thread.
inline void add_and_clear_terms(float* terms, std::int64_t count, const ExactView& sums) {
  double* __restrict high = sums.high;
  double* __restrict low = sums.low;
  float* __restrict from = terms;
  for (std::int64_t i = 0; i < count; ++i) {
    exact::add(static_cast<double>(from[i]), high[i], low[i]);
    from[i] = 0;
  }
}

/// Writes sum i, rounded, to values[i] for i in [0, count), with threads where that pays, and
/// clears the sums. False if a sum was not finite. Local; allocates nothing.
bool take_sums(const ExactView& sums, std::int64_t count, float* values);

}  // namespace halomesh
