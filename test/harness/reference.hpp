// SPDX-License-Identifier: Apache-2.0
// The input and output of a serial fp64 reference of a layer: whole tensors, and results with their
// own bound on fp32 rounding.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "shape.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// A whole tensor in double precision, order n,d,h,w,c.
struct GlobalTensor {
  Shape shape;
  std::int64_t batch = 0;
  std::vector<double> values;

  GlobalTensor() = default;
  GlobalTensor(const Shape& s, std::int64_t n)
      : shape(s), batch(n), values(static_cast<std::size_t>(n * s.volume())) {}
  std::size_t offset(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h,
                     std::int64_t w) const {
    return static_cast<std::size_t>((((n * shape.d + d) * shape.h + h) * shape.w + w) * shape.c +
                                    c);
  }
  double& at(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
    return values[offset(n, c, d, h, w)];
  }
  double at(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) const {
    return values[offset(n, c, d, h, w)];
  }
};

/// Results with a bound on their rounding error in fp32. A sum of n products of exact fp32 numbers,
/// added in any order, has |error| <= gamma_n * sum |a||b| with gamma_n = n u / (1 - n u), u =
/// 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1). Sums over
/// parts and samples are such sums too, so one bound serves every cut. Magnitude 0 demands
/// equality: for results that are copied or chosen, not computed.
struct Estimate {
  std::vector<double> values;      ///< exact to double precision
  std::vector<double> magnitudes;  ///< sum |a||b| of each value
  double terms = 1;                ///< n: the largest number of rounded operations in a value

  Estimate() = default;
  explicit Estimate(std::size_t size) : values(size), magnitudes(size) {}
  /// Adds the product a * b to value i.
  void add(std::size_t i, double a, double b = 1) {
    values[i] += a * b;
    magnitudes[i] += std::abs(a * b);
  }
  double tolerance(std::size_t i) const {
    const double nu = terms * 0x1p-24;
    return nu / (1 - nu) * magnitudes[i];
  }
};

/// A layer's global input. `parameters` have the order out, then `in` in c,d,h,w order (d,h,w,c if
/// the geometry says channels_last). Every value is exactly representable in fp32.
struct ReferenceInput {
  std::vector<GlobalTensor> src;
  std::vector<std::vector<double>> parameters;
  GlobalTensor diff_dst;
  Pass pass;
};

/// A layer's global output: dst and diff_src in the order of GlobalTensor; diff_parameters in the
/// order of `parameters`, summed over the batch.
struct ReferenceOutput {
  Estimate dst;
  std::vector<Estimate> diff_src;
  std::vector<Estimate> diff_parameters;
};

using Reference = std::function<ReferenceOutput(const ReferenceInput&)>;

}  // namespace halomesh
