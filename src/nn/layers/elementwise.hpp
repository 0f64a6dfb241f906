// SPDX-License-Identifier: Apache-2.0
// Functions of one element, by a table: rectifiers, sigmoids, powers and others. Pointwise: need no
// halo.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// A function of one number and the constants in its formula.
struct ElementFunction {
  enum class Kind : std::uint8_t {
    kLeakyRelu,    ///< x > 0 ? x : a x
    kScaledTanh,   ///< a tanh(x)
    kSigmoid,      ///< s(x) = 1 / (1 + e^-x)
    kSilu,         ///< x s(a x)
    kGelu,         ///< x P(x), P the integral of the normal distribution
    kGeluTanh,     ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    kElu,          ///< x > 0 ? b x : b a (e^(x / c) - 1)
    kSoftplus,     ///< log(1 + e^x)
    kHardSigmoid,  ///< a x + b, between 0 and 1
    kHardSwish,    ///< x times (x + 3) / 6, between 0 and 1
    kMish,         ///< x tanh(log(1 + e^x))
    kClip,         ///< x between a and b
    kExp,          ///< e^x
    kLog,          ///< log(x)
    kSqrt,         ///< sqrt(x)
    kAbs,          ///< |x|
    kErf,          ///< erf(x)
    kPower,        ///< x^a
    kLinear        ///< a x + b
  };
  Kind kind = Kind::kLeakyRelu;
  float a = 0, b = 0, c = 0;

  /// With slope 0 the rectifier (ReLU). CosmoFlow's slope is 0.3, the default of Keras' LeakyReLU
  /// layer, which the benchmark's reference keeps.
  static ElementFunction leaky_relu(float slope) { return {Kind::kLeakyRelu, slope}; }
  static ElementFunction scaled_tanh(float scale) { return {Kind::kScaledTanh, scale}; }
  static ElementFunction elu(float alpha) { return {Kind::kElu, alpha, 1, 1}; }
  /// The constants of Klambauer, Unterthiner, Mayr & Hochreiter, arXiv:1706.02515, equation 14.
  static ElementFunction selu() { return {Kind::kElu, 1.67326324F, 1.05070099F, 1}; }
  static ElementFunction celu(float alpha) { return {Kind::kElu, alpha, 1, alpha}; }
  static ElementFunction silu() { return {Kind::kSilu, 1}; }
  static ElementFunction clip(float low, float high) { return {Kind::kClip, low, high}; }
  static ElementFunction power(float exponent) { return {Kind::kPower, exponent}; }
  static ElementFunction linear(float scale, float shift) { return {Kind::kLinear, scale, shift}; }
};

/// The values between two bounds, which may be infinite.
struct OutputRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool is_bounded() const { return std::isfinite(low) && std::isfinite(high); }
};

/// The values that a layer's output can have: those of its function, if it is Elementwise.
OutputRange output_range(const Layer& layer);

/// out = f(src). The derivative is read from the output where the formula gives it, otherwise from
/// the input. NaN stays NaN. Computed in fp32.
class Elementwise final : public Pointwise {
 public:
  /// Throws Error for constants that are not finite (but limits may be infinite), for a negative
  /// slope of a leaky ReLU, for a tanh scaled by 0, for an ELU whose a or c is not positive, and
  /// for a lower limit above the upper one.
  explicit Elementwise(const ElementFunction& function, DataType type = DataType::kFloat32);

  const ElementFunction& function() const { return function_; }
  DataType dst_type(std::span<const DataType> src) const override;
  /// For example "leaky relu fp32".
  std::string kernel_name() const override;
  bool sums_exactly() const override { return true; }
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool backward_reads_dst() const override;
  bool backward_reads_src() const override { return !backward_reads_dst(); }
  bool repeats_forward() const override { return true; }
  bool backward_in_place(std::size_t) const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  ElementFunction function_;
  DataType type_;
};

}  // namespace halomesh
