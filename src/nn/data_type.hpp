// SPDX-License-Identifier: Apache-2.0
// The element types of tensors, and the conversions between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace halomesh {

/// kFloat32 and kBfloat16 hold values. kInt16 holds counts x >= 0 that stand for log(1+x), as
/// samples are stored; only a network's input may have it. kFloat64 is for few numbers that are
/// summed over parts and subtracted from each other, such as moments. kUint8 is for state that
/// layers keep beside their output and other parts copy, such as the places of maxima.
enum class DataType : std::uint8_t { kFloat32, kBfloat16, kInt16, kFloat64, kUint8 };

/// The upper half of an IEEE 754 binary32: 8 bits of exponent, 7 of fraction.
struct Bfloat16 {
  std::uint16_t bits = 0;

  Bfloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  explicit Bfloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = word + 0x7fffU + ((word >> 16U) & 1U);
    bits = static_cast<std::uint16_t>((is_nan ? word | 0x00400000U : rounded) >> 16U);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
  friend bool operator==(const Bfloat16&, const Bfloat16&) = default;
};

template <class T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> {
  static constexpr DataType kType = DataType::kFloat32;
};
template <>
struct DataTypeOf<Bfloat16> {
  static constexpr DataType kType = DataType::kBfloat16;
};
template <>
struct DataTypeOf<std::int16_t> {
  static constexpr DataType kType = DataType::kInt16;
};

template <>
struct DataTypeOf<double> {
  static constexpr DataType kType = DataType::kFloat64;
};

template <>
struct DataTypeOf<std::uint8_t> {
  static constexpr DataType kType = DataType::kUint8;
};

/// Bytes of one element.
constexpr std::int64_t size_of(DataType type) {
  if (type == DataType::kUint8) return 1;
  return type == DataType::kFloat64 ? 8 : type == DataType::kFloat32 ? 4 : 2;
}

constexpr const char* name_of(DataType type) {
  switch (type) {
    case DataType::kBfloat16:
      return "bf16";
    case DataType::kInt16:
      return "int16";
    case DataType::kFloat64:
      return "fp64";
    case DataType::kUint8:
      return "uint8";
    case DataType::kFloat32:
      break;
  }
  return "fp32";
}

}  // namespace halomesh
