// SPDX-License-Identifier: Apache-2.0
// Functions of one element: see elementwise.hpp.
#include "src/nn/layers/elementwise.hpp"

#include <cmath>

#include "src/nn/kernels/float_functions.hpp"
#include "src/nn/kernels/float_types.hpp"
#include "src/nn/runs.hpp"

namespace halomesh {
namespace {

using FunctionKind = ElementFunction::Kind;

// One entry for each kind: its name, its value, and its slope at an element of the output, where
// kOfDst, or of the input. Loops copy the entry, so that its constants are local values: compilers
// vectorize no loop that could change them.
template <FunctionKind>
struct FunctionEntry;

// Multiplies by 1 or the slope instead of choosing between two values: compilers vectorize this.
// The output's sign is that of the input because the slope is not negative.
template <>
struct FunctionEntry<FunctionKind::kLeakyRelu> {
  static constexpr const char* kName = "leaky relu";
  static constexpr bool kOfDst = true;
  ElementFunction f;
  float value(float x) const { return x * slope(x); }
  float slope(float y) const { return y > 0 ? 1 : f.a; }
};
// The slope is a (1 - tanh(x)^2) = a - y^2 / a.
template <>
struct FunctionEntry<FunctionKind::kScaledTanh> {
  static constexpr const char* kName = "scaled tanh";
  static constexpr bool kOfDst = true;
  ElementFunction f;
  float value(float x) const { return f.a * tanh_of(x); }
  float slope(float y) const { return f.a - y * y / f.a; }
};
template <>
struct FunctionEntry<FunctionKind::kSigmoid> {
  static constexpr const char* kName = "sigmoid";
  static constexpr bool kOfDst = true;
  ElementFunction f;
  float value(float x) const { return sigmoid_of(x); }
  float slope(float y) const { return y * (1 - y); }
};
template <>
struct FunctionEntry<FunctionKind::kSilu> {
  static constexpr const char* kName = "silu";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return x * sigmoid_of(f.a * x); }
  float slope(float x) const {
    const float s = sigmoid_of(f.a * x);
    return s + f.a * x * s * (1 - s);
  }
};
template <>
struct FunctionEntry<FunctionKind::kGelu> {
  static constexpr const char* kName = "gelu";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return x * Normal(x).integral; }
  float slope(float x) const {
    const Normal normal(x);
    return normal.integral + x * normal.density;
  }
};
// (1 + tanh(u)) / 2 = s(2 u).
template <>
struct FunctionEntry<FunctionKind::kGeluTanh> {
  static constexpr const char* kName = "gelu by tanh";
  static constexpr bool kOfDst = false;
  static constexpr float kScale = 1.59576912F, kCubic = 0.044715F;
  ElementFunction f;
  float value(float x) const { return x * sigmoid_of(kScale * x * (1 + kCubic * x * x)); }
  float slope(float x) const {
    const float s = sigmoid_of(kScale * x * (1 + kCubic * x * x));
    return s + x * s * (1 - s) * kScale * (1 + 3 * kCubic * x * x);
  }
};
// Below 0 the slope is b a e^(x / c) / c = (y + b a) / c.
template <>
struct FunctionEntry<FunctionKind::kElu> {
  static constexpr const char* kName = "elu";
  static constexpr bool kOfDst = true;
  ElementFunction f;
  float value(float x) const {
    const float below = f.a * expm1_of((x > 0 ? 0 : x) / f.c);
    return f.b * (x > 0 ? x : below);
  }
  float slope(float y) const { return y > 0 ? f.b : (y + f.b * f.a) / f.c; }
};
template <>
struct FunctionEntry<FunctionKind::kSoftplus> {
  static constexpr const char* kName = "softplus";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return (x < 0 ? 0 : x) + std::log1p(exp_of(-std::fabs(x))); }
  float slope(float x) const { return sigmoid_of(x); }
};
template <>
struct FunctionEntry<FunctionKind::kHardSigmoid> {
  static constexpr const char* kName = "hard sigmoid";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return clamped(f.a * x + f.b, 0, 1); }
  float slope(float x) const {
    const float y = f.a * x + f.b;
    return y > 0 && y < 1 ? f.a : 0;
  }
};
template <>
struct FunctionEntry<FunctionKind::kHardSwish> {
  static constexpr const char* kName = "hard swish";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return x * clamped(x + 3, 0, 6) / 6; }
  float slope(float x) const {
    const float between = x / 3 + 0.5F;
    return x < -3 ? 0 : x < 3 ? between : 1;
  }
};
// With e = e^x and n = e (e + 2), tanh(log(1 + e)) is n / (n + 2), and the square of its complement
// to 1 is 4 (n + 1) / (n + 2)^2. Both are 1 and 0 in fp32 from 20 on, where n would overflow later.
template <>
struct FunctionEntry<FunctionKind::kMish> {
  static constexpr const char* kName = "mish";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const {
    const float e = exp_of(x > 20 ? 20 : x), n = e * (e + 2);
    return x * (n / (n + 2));
  }
  float slope(float x) const {
    const float e = exp_of(x > 20 ? 20 : x), n = e * (e + 2), m = n + 2;
    return n / m + x * (e / (1 + e)) * (4 * ((n + 1) / m) / m);
  }
};
template <>
struct FunctionEntry<FunctionKind::kClip> {
  static constexpr const char* kName = "clip";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return clamped(x, f.a, f.b); }
  float slope(float x) const { return x > f.a && x < f.b ? 1 : 0; }
};
template <>
struct FunctionEntry<FunctionKind::kExp> {
  static constexpr const char* kName = "exp";
  static constexpr bool kOfDst = true;
  ElementFunction f;
  float value(float x) const { return exp_of(x); }
  float slope(float y) const { return y; }
};
template <>
struct FunctionEntry<FunctionKind::kLog> {
  static constexpr const char* kName = "log";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return std::log(x); }
  float slope(float x) const { return 1 / x; }
};
template <>
struct FunctionEntry<FunctionKind::kSqrt> {
  static constexpr const char* kName = "sqrt";
  static constexpr bool kOfDst = true;
  ElementFunction f;
  float value(float x) const { return std::sqrt(x); }
  float slope(float y) const { return 0.5F / y; }
};
template <>
struct FunctionEntry<FunctionKind::kAbs> {
  static constexpr const char* kName = "abs";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return std::fabs(x); }
  // GCC 12 for SVE ends with an internal error at two nested choices here.
  float slope(float x) const { return static_cast<float>(x > 0) - static_cast<float>(x < 0); }
};
template <>
struct FunctionEntry<FunctionKind::kErf> {
  static constexpr const char* kName = "erf";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return std::erf(x); }
  float slope(float x) const { return 1.12837917F * exp_of(-x * x); }
};
template <>
struct FunctionEntry<FunctionKind::kPower> {
  static constexpr const char* kName = "power";
  static constexpr bool kOfDst = false;
  ElementFunction f;
  float value(float x) const { return raised(x, f.a); }
  float slope(float x) const { return f.a * raised(x, f.a - 1); }
  // Squares and reciprocals, the usual ones, without a call of the C library.
  static float raised(float x, float to) {
    return to == 2 ? x * x : to == 1 ? x : to == 0 ? 1 : to == -1 ? 1 / x : std::pow(x, to);
  }
};
template <>
struct FunctionEntry<FunctionKind::kLinear> {
  static constexpr const char* kName = "linear";
  static constexpr bool kOfDst = true;
  ElementFunction f;
  float value(float x) const { return f.a * x + f.b; }
  float slope(float) const { return f.a; }
};

// Calls body(entry of the function) and returns its result.
template <std::uint8_t kFrom = 0, class Body>
auto with_entry(const ElementFunction& function, const Body& body) {
  constexpr auto kKind = static_cast<FunctionKind>(kFrom);
  if constexpr (kKind == FunctionKind::kLinear)
    return body(FunctionEntry<kKind>{function});
  else
    return function.kind == kKind ? body(FunctionEntry<kKind>{function})
                                  : with_entry<kFrom + 1>(function, body);
}

void check_constants(const ElementFunction& f, const char* name) {
  const bool limits = f.kind == FunctionKind::kClip;
  const bool fits = limits                                ? f.a <= f.b
                    : f.kind == FunctionKind::kLeakyRelu  ? f.a >= 0
                    : f.kind == FunctionKind::kScaledTanh ? f.a != 0
                    : f.kind == FunctionKind::kElu        ? f.a > 0 && f.b > 0 && f.c > 0
                                                          : true;
  require(fits && (limits || (std::isfinite(f.a) && std::isfinite(f.b) && std::isfinite(f.c))),
          text("{} with constants {:g}, {:g}, {:g}", name, f.a, f.b, f.c),
          "a slope must not be negative, a scale not 0, the constants of an ELU positive, the "
          "lower limit not above the upper one, and all others finite");
}

}  // namespace

Elementwise::Elementwise(const ElementFunction& function, DataType type)
    : function_(function), type_(type) {
  check_constants(function, with_entry(function, [](auto entry) { return entry.kName; }));
}

DataType Elementwise::dst_type(std::span<const DataType> src) const {
  return require_type(src, type_, with_entry(function_, [](auto entry) { return entry.kName; }));
}

OutputRange output_range(const Layer& layer) {
  const auto* const last = dynamic_cast<const Elementwise*>(&layer);
  if (last == nullptr) return {};
  const ElementFunction& f = last->function();
  OutputRange range;
  switch (f.kind) {
    case ElementFunction::Kind::kScaledTanh:
      return {-std::abs(f.a), std::abs(f.a)};
    case ElementFunction::Kind::kSigmoid:
    case ElementFunction::Kind::kHardSigmoid:
      return {0, 1};
    case ElementFunction::Kind::kErf:
      return {-1, 1};
    case ElementFunction::Kind::kClip:
      return {f.a, f.b};
    case ElementFunction::Kind::kLeakyRelu:
      range.low = f.a == 0 ? 0 : range.low;
      return range;
    case ElementFunction::Kind::kSoftplus:
    case ElementFunction::Kind::kExp:
    case ElementFunction::Kind::kSqrt:
    case ElementFunction::Kind::kAbs:
      range.low = 0;
      return range;
    default:
      return range;
  }
}

std::string Elementwise::kernel_name() const {
  return fmt::format("{} {}", with_entry(function_, [](auto entry) { return entry.kName; }),
                     name_of(type_));
}

bool Elementwise::backward_reads_dst() const {
  return with_entry(function_, [](auto entry) { return entry.kOfDst; });
}

void Elementwise::forward(const Pass&, std::span<const AnyConstView> src, AnyView dst,
                          const Box& chunk) {
  with_entry(function_, [&](const auto& entry) {
    with_float_type(type_, [&](auto zero) {
      using T = decltype(zero);
      const auto from = src[0].as<T>();
      const auto to = dst.as<T>();
      visit_runs(chunk, to.batch, has_all_channels(chunk, from, to), [&](const Run& run) {
        const auto function = entry;
        const T* const x = run.begin_in(from, chunk);
        T* const y = run.begin_in(to, chunk);
        for (std::int64_t i = 0; i < run.length; ++i)
          y[i] = T(function.value(static_cast<float>(x[i])));
      });
    });
  });
}

void Elementwise::backward_data(const Pass&, const ForwardValues& values, AnyConstView diff_dst,
                                std::size_t input, AnyView diff_src) {
  const Box& box = context().boxes.src_needed[input];
  with_entry(function_, [&](const auto& entry) {
    with_float_type(type_, [&](auto zero) {
      using T = decltype(zero);
      const auto read = (entry.kOfDst ? values.dst : values.src[0]).template as<T>(),
                 from = diff_dst.as<T>();
      const auto to = diff_src.as<T>();
      const bool rows = has_all_channels(box, read, from, to);
      visit_runs(box, to.batch, rows, [&](const Run& run) {
        const auto function = entry;
        const T* const at = run.begin_in(read, box);
        const T* const dy = run.begin_in(from, box);
        T* const dx = run.begin_in(to, box);
        for (std::int64_t i = 0; i < run.length; ++i)
          dx[i] = T(static_cast<float>(dy[i]) * function.slope(static_cast<float>(at[i])));
      });
    });
  });
}

}  // namespace halomesh
