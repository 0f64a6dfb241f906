// SPDX-License-Identifier: Apache-2.0
// Linear and logarithmic scales: where a value lies, which values get a tick, and how it is
// written.
#pragma once

#include <string>
#include <vector>

namespace halomesh {

/// The values that an axis shows. A logarithmic one is to base 10 and positive.
struct Range {
  double least = 0, most = 1;
  bool logarithmic = false;
};

struct Tick {
  double value = 0;
  std::string label;  ///< "": a small tick between labelled ones of a logarithmic axis
};

/// `range` with two different ends: a single value gets room on both sides, 0 becomes [0, 1].
Range widened(Range range);

/// `range` extended to whole ticks, of which there are about `ticks`.
Range rounded(Range range, int ticks);

/// Ticks within `range`, at most `most` of them labelled: multiples of 1, 2 or 5 x 10^n; powers of
/// ten where a logarithmic axis spans several.
std::vector<Tick> ticks_of(const Range& range, int most);

/// A number for people: 5 significant digits, thousands grouped, powers of ten outside 1e-4..1e9.
std::string readable(double value);

/// Maps values of a range onto pixels.
class Scale {
 public:
  Scale() = default;
  /// `range.least` lies at `from`, `range.most` at `to`; either may be the greater one.
  Scale(const Range& range, double from, double to) : range_(range), from_(from), to_(to) {}

  double operator()(double value) const;
  const Range& range() const { return range_; }
  double from() const { return from_; }
  double to() const { return to_; }

 private:
  Range range_;
  double from_ = 0, to_ = 1;
};

}  // namespace halomesh
