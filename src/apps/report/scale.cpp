// SPDX-License-Identifier: Apache-2.0
#include "src/apps/report/scale.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace halomesh {
namespace {

constexpr double kSlack = 1e-9;  // of a tick: rounding of the arithmetic here

/// Exact for the exponents that numbers of a report have, unlike 1 / 10^-n.
double times_power(double value, int exponent) {
  return exponent < 0 ? value / std::pow(10.0, -exponent) : value * std::pow(10.0, exponent);
}

int exponent_of(double value) { return static_cast<int>(std::floor(std::log10(value) + kSlack)); }

/// digit x 10^exponent, digit 1, 2 or 5.
struct Step {
  int digit = 1, exponent = 0;

  double value() const { return times_power(digit, exponent); }
};

Step step_of(const Range& range, int most) {
  const double least_step = (range.most - range.least) / std::max(most - 1, 1);
  const int exponent = exponent_of(least_step);
  for (const int digit : {1, 2, 5}) {
    const Step step{digit, exponent};
    if (step.value() >= least_step * (1 - kSlack)) return step;
  }
  return {1, exponent + 1};
}

std::string grouped(std::string number) {
  const std::size_t first = number.front() == '-' ? 1 : 0;
  std::size_t end = std::min(number.find('.'), number.size());
  if (end - first < 5) return number;  // 1000 to 9999 read well without
  for (; end > first + 3; end -= 3) number.insert(end - 3, ",");
  return number;
}

std::string without_zeros(std::string number) {
  if (number.find('.') == std::string::npos) return number;
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') number.pop_back();
  return number;
}

std::string power_of_ten(int exponent) {
  static constexpr std::array<const char*, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                          "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char c : std::to_string(std::abs(exponent)))
    text += kDigits.at(static_cast<std::size_t>(c - '0'));
  return text;
}

std::string linear_label(double value, const Step& step, double greatest) {
  if (value == 0) return "0";
  if (greatest >= 1e-4 && greatest < 1e7) {
    return grouped(fmt::format("{:.{}f}", value, std::max(0, -step.exponent)));
  }
  const int exponent = exponent_of(greatest);
  return fmt::format("{:.{}f}×{}", times_power(value, -exponent),
                     std::max(0, exponent - step.exponent), power_of_ten(exponent));
}

std::vector<Tick> linear_ticks(const Range& range, int most) {
  const Step step = step_of(range, most);
  const double size = step.value();
  const double greatest = std::max(std::abs(range.least), std::abs(range.most));
  std::vector<Tick> ticks;
  const auto last = static_cast<std::int64_t>(std::floor(range.most / size + kSlack));
  for (auto i = static_cast<std::int64_t>(std::ceil(range.least / size - kSlack)); i <= last; ++i) {
    const double value = times_power(static_cast<double>(i * step.digit), step.exponent);
    ticks.push_back({value, linear_label(value, step, greatest)});
  }
  return ticks;
}

/// digit x 10^exponent for each exponent that `stride` divides, within the range.
std::vector<Tick> log_ticks_at(const Range& range, const std::vector<int>& digits, int stride) {
  std::vector<Tick> ticks;
  const bool plain = range.least >= 0.9e-4 && range.most < 1.1e6;
  for (int e = exponent_of(range.least); e <= exponent_of(range.most); ++e) {
    if (e % stride != 0) continue;
    for (const int digit : digits) {
      const double value = times_power(digit, e);
      if (value < range.least * (1 - kSlack) || value > range.most * (1 + kSlack)) continue;
      std::string label = plain ? grouped(fmt::format("{:.{}f}", value, std::max(0, -e)))
                                : (digit == 1 ? "" : fmt::format("{}×", digit)) + power_of_ten(e);
      ticks.push_back({value, std::move(label)});
    }
  }
  return ticks;
}

std::vector<Tick> log_ticks(const Range& range, int most) {
  if (range.most / range.least < 3) return linear_ticks(range, most);
  std::vector<int> all;
  for (int digit = 1; digit < 10; ++digit) all.push_back(digit);
  std::vector<Tick> ticks;
  const auto fits = [&](const std::vector<int>& digits, int stride) {
    ticks = log_ticks_at(range, digits, stride);
    return ticks.size() <= static_cast<std::size_t>(most);
  };
  if (fits(all, 1)) return ticks;
  if (!fits({1, 2, 5}, 1) && !fits({1}, 1)) {
    for (int stride = 2; !fits({1}, stride);) ++stride;
    return ticks;
  }
  for (const Tick& small : log_ticks_at(range, all, 1)) {
    const auto equal = [&](const Tick& tick) { return tick.value == small.value; };
    if (std::none_of(ticks.begin(), ticks.end(), equal)) ticks.push_back({small.value, ""});
  }
  std::sort(ticks.begin(), ticks.end(),
            [](const Tick& a, const Tick& b) { return a.value < b.value; });
  return ticks;
}

/// The next of 1, 2, 5 x 10^n that is not above `value`, or not below it.
double one_two_five(double value, bool above) {
  const int exponent = exponent_of(value);
  double found = times_power(1, exponent);
  for (const int digit : {1, 2, 5, 10}) {
    const double candidate = times_power(digit, exponent);
    if (above && candidate >= value * (1 - kSlack)) return candidate;
    if (!above && candidate <= value * (1 + kSlack)) found = candidate;
  }
  return found;
}

}  // namespace

Range widened(Range range) {
  // Differences that are but rounding would give ticks with the same label.
  if (range.most - range.least > 1e-9 * std::max(std::abs(range.least), std::abs(range.most)))
    return range;
  if (range.logarithmic) return {range.least / 2, range.most * 2, true};
  const double room = range.least == 0 ? 0.5 : std::abs(range.least) / 10;
  return {range.least == 0 ? 0 : range.least - room, range.least == 0 ? 1 : range.most + room,
          false};
}

Range rounded(Range range, int ticks) {
  range = widened(range);
  if (range.logarithmic)
    return {one_two_five(range.least, false), one_two_five(range.most, true), true};
  const Step step = step_of(range, ticks);
  const auto whole = [&](double count) { return times_power(count * step.digit, step.exponent); };
  return {whole(std::floor(range.least / step.value() + kSlack)),
          whole(std::ceil(range.most / step.value() - kSlack)), false};
}

std::vector<Tick> ticks_of(const Range& range, int most) {
  return range.logarithmic ? log_ticks(range, most) : linear_ticks(range, most);
}

std::string readable(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "–" : value > 0 ? "∞" : "-∞";
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size == std::floor(size) && size < 1e15) return grouped(fmt::format("{:.0f}", value));
  const int exponent = exponent_of(size);
  if (exponent < -4 || exponent >= 9) {
    return without_zeros(fmt::format("{:.4f}", times_power(value, -exponent))) + "×" +
           power_of_ten(exponent);
  }
  return grouped(without_zeros(fmt::format("{:.{}f}", value, std::max(0, 4 - exponent))));
}

double Scale::operator()(double value) const {
  const double share = range_.logarithmic
                           ? std::log(value / range_.least) / std::log(range_.most / range_.least)
                           : (value - range_.least) / (range_.most - range_.least);
  return from_ + share * (to_ - from_);
}

}  // namespace halomesh
