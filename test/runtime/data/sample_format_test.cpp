// SPDX-License-Identifier: Apache-2.0
// Kinds of values: what they accept, convert and refuse.
#include "runtime/data/sample_format.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "error.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

template <class T>
std::optional<InvalidValue> convert(const SampleFormat& format, const std::vector<T>& stored,
                                    std::int64_t first, std::int64_t channels,
                                    std::span<std::byte> values) {
  return format.convert(hdf5_type<T>(), std::as_bytes(std::span(stored)), first, channels, values);
}

TEST_CASE("sample_format: fields are mapped to [0, 1] channel by channel, in fp32") {
  const SampleFormat format = SampleFormat::field({{-1, 1}, {0, 10}, {5, 5.5F}});
  CHECK(format.type() == DataType::kFloat32);
  std::vector<float> values(4);
  const auto bytes = std::as_writable_bytes(std::span(values));
  // Two pixels of the channels 1 and 2, as in a block that is cut along channels.
  CHECK(!convert<float>(format, {0, 5, 3, 5.25F}, 1, 2, bytes));
  CHECK(values == std::vector<float>{0, 0, 0.1F * 3, 0.5F});
  CHECK(!convert<double>(format, {10, 5.5, 20, 0}, 1, 2, bytes));
  CHECK(values == std::vector<float>{1, 1, 2, -10});
  CHECK(!convert<double>(SampleFormat::field(), {1, 2, -3, 4e30}, 0, 2, bytes));
  CHECK(values == std::vector<float>{1, 2, -3, 4e30F});
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           -std::numeric_limits<double>::infinity(), 1e300}) {
    const auto found = convert<double>(format, {1, 2, bad, bad}, 0, 2, bytes);
    REQUIRE(found);
    CHECK(found->index == 2);
  }
  CHECK_THROWS_AS(SampleFormat::field({{1, 1}}), Error);
  CHECK_THROWS_AS(SampleFormat::field({{0, std::numeric_limits<float>::infinity()}}), Error);
}

template <class T>
void check_labels() {
  const SampleFormat format = SampleFormat::labels(3);
  CHECK(format.accepts(hdf5_type<T>()));
  std::vector<std::uint8_t> values(4);
  const auto bytes = std::as_writable_bytes(std::span(values));
  CHECK(!convert<T>(format, {0, 2, 1, 2}, 0, 1, bytes));
  CHECK(values == std::vector<std::uint8_t>{0, 2, 1, 2});
  const auto found = convert<T>(format, {0, 2, 3, 100}, 0, 1, bytes);
  REQUIRE(found);
  CHECK(found->index == 2);
  CHECK(found->value == 3);
  if constexpr (std::is_signed_v<T>)
    CHECK(convert<T>(format, {0, static_cast<T>(-1), 0, 0}, 0, 1, bytes)->value == -1);
}

TEST_CASE("sample_format: labels of any type become bytes; those without a class are refused") {
  check_labels<std::int8_t>();
  check_labels<std::uint8_t>();
  check_labels<std::int16_t>();
  check_labels<std::uint16_t>();
  check_labels<std::int32_t>();
  check_labels<std::uint32_t>();
  check_labels<std::int64_t>();
  check_labels<std::uint64_t>();
  check_labels<float>();
  check_labels<double>();
  std::vector<std::uint8_t> values(2);
  const auto bytes = std::as_writable_bytes(std::span(values));
  CHECK(convert<float>(SampleFormat::labels(3), {1, 1.5F}, 0, 1, bytes)->index == 1);
  CHECK(convert<float>(SampleFormat::labels(3), {std::numeric_limits<float>::quiet_NaN(), 1}, 0, 1,
                       bytes)
            ->index == 0);
  CHECK(!convert<std::uint8_t>(SampleFormat::labels(256), {255, 0}, 0, 1, bytes));
  CHECK_THROWS_AS(SampleFormat::labels(0), Error);
  CHECK_THROWS_AS(SampleFormat::labels(257), Error);
}

TEST_CASE("sample_format: counts are stored as they are") {
  const SampleFormat format = SampleFormat::counts();
  CHECK(format.accepts(Hdf5Type::kInt16));
  CHECK(!format.accepts(Hdf5Type::kFloat));
  CHECK(!SampleFormat::field().accepts(Hdf5Type::kInt16));
  std::vector<std::int16_t> values(3);
  const auto bytes = std::as_writable_bytes(std::span(values));
  CHECK(!convert<std::int16_t>(format, {0, 7, 32767}, 0, 1, bytes));
  CHECK(values == std::vector<std::int16_t>{0, 7, 32767});
  CHECK(convert<std::int16_t>(format, {0, 7, -7}, 0, 1, bytes)->value == -7);
}

}  // namespace
}  // namespace halomesh
