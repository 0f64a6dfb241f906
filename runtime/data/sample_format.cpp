// SPDX-License-Identifier: Apache-2.0
// Kinds of values, their checks and conversions: see sample_format.hpp.
#include "runtime/data/sample_format.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

template <class T>
const T* elements_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const T*>(bytes.data());  // NOLINT: aligned for its elements
}

/// The first invalid element. Invalid ones are rare, so it looks for any first, then for the first.
template <class T, class IsGood>
std::optional<InvalidValue> first_bad(std::span<const std::byte> bytes, const IsGood& is_good) {
  const T* const from = elements_of<T>(bytes);
  const std::size_t count = bytes.size() / sizeof(T);
  bool all = true;
  for (std::size_t i = 0; i < count; ++i) all &= is_good(from[i]);
  if (all) return std::nullopt;
  const T* const bad = std::find_if_not(from, from + count, is_good);
  return InvalidValue{bad - from, static_cast<double>(*bad)};
}

/// scale * (x - shift) in fp32, as the DeepCAM benchmark normalises its fields.
struct Affine {
  float shift = 0, scale = 1;
  float operator()(float x) const { return scale * (x - shift); }
};

template <class T>
void normalise(const T* from, std::size_t count, std::size_t first, std::size_t channels,
               std::span<const ChannelRange> ranges, float* to) {
  if (ranges.empty()) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
    return;
  }
  std::vector<Affine> maps;
  for (std::size_t c = 0; c < channels; ++c) {
    const ChannelRange& range = ranges[first + c];
    maps.push_back({range.min, 1.0F / (range.max - range.min)});
  }
  for (std::size_t i = 0; i < count; i += channels)
    for (std::size_t c = 0; c < channels; ++c) to[i + c] = maps[c](static_cast<float>(from[i + c]));
}

}  // namespace

SampleFormat SampleFormat::field(std::vector<ChannelRange> ranges) {
  for (std::size_t c = 0; c < ranges.size(); ++c)
    require(std::isfinite(ranges[c].min) && std::isfinite(ranges[c].max) &&
                ranges[c].max > ranges[c].min,
            text("the range of channel {} is {:g} to {:g}", c, ranges[c].min, ranges[c].max),
            "leave out a channel that is constant, or give its minimum and maximum");
  SampleFormat format;
  format.kind_ = Kind::kField;
  format.ranges_ = std::move(ranges);
  return format;
}

SampleFormat SampleFormat::labels(std::int64_t classes) {
  require(classes >= 1 && classes <= 256, text("labels of {} classes", classes),
          "labels are stored in a byte: 1 to 256 classes");
  SampleFormat format;
  format.kind_ = Kind::kLabels;
  format.classes_ = classes;
  return format;
}

DataType SampleFormat::type() const {
  if (kind_ == Kind::kLabels) return DataType::kUint8;
  return kind_ == Kind::kField ? DataType::kFloat32 : DataType::kInt16;
}

bool SampleFormat::accepts(Hdf5Type stored) const {
  return kind_ == Kind::kLabels || (stored == Hdf5Type::kInt16) == (kind_ == Kind::kCounts);
}

bool SampleFormat::is_stored_as(Hdf5Type stored) const {
  if (kind_ == Kind::kCounts) return stored == Hdf5Type::kInt16;
  return stored == (kind_ == Kind::kField ? Hdf5Type::kFloat : Hdf5Type::kUint8);
}

std::optional<InvalidValue> SampleFormat::convert(Hdf5Type stored,
                                                  std::span<const std::byte> elements,
                                                  std::int64_t first, std::int64_t channels,
                                                  std::span<std::byte> values) const {
  return with_type(stored, [&](auto element) -> std::optional<InvalidValue> {
    using T = decltype(element);
    const T* const from = elements_of<T>(elements);
    const std::size_t count = elements.size() / sizeof(T);
    const auto end = static_cast<double>(classes_);
    const auto good = [&](T x) {
      if (kind_ == Kind::kCounts) return x >= T{0};
      const auto value = static_cast<double>(x);
      if (kind_ == Kind::kField) return std::isfinite(static_cast<float>(value));
      return value >= 0 && value < end && value == std::floor(value);
    };
    if (const auto bad = first_bad<T>(elements, good)) return bad;
    if (kind_ == Kind::kField)
      normalise(from, count, static_cast<std::size_t>(first), static_cast<std::size_t>(channels),
                ranges_, reinterpret_cast<float*>(values.data()));  // NOLINT: aligned, see header
    else if (kind_ == Kind::kLabels)
      std::transform(from, from + count, values.data(),
                     [](T x) { return static_cast<std::byte>(static_cast<std::uint8_t>(x)); });
    else if (elements.data() != values.data())
      std::memcpy(values.data(), elements.data(), elements.size());
    return std::nullopt;
  });
}

std::string SampleFormat::expected() const {
  if (kind_ == Kind::kLabels) return fmt::format("a label of 0 to {}", classes_ - 1);
  return kind_ == Kind::kField ? "a finite number" : "a count of 0 or more";
}

std::string SampleFormat::cure() const {
  if (kind_ == Kind::kLabels)
    return "the network needs an output channel for each class: correct the labels, or use a "
           "network of more classes";
  if (kind_ == Kind::kField) return "correct the fields, or keep the file out of the data set";
  return "int16 stands for particle counts: generate or convert the file again, or write other "
         "numbers as float32";
}

}  // namespace halomesh
