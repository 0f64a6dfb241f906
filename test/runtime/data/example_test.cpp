// SPDX-License-Identifier: Apache-2.0
// Samples in records: literal wire bytes, the benchmark's file size, wrong messages, log(1+x).
#include "runtime/data/example.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "error.hpp"
#include "runtime/data/tfrecord.hpp"

namespace halomesh {
namespace {

/// A length-delimited protobuf field (wire type 2) of fewer than 128 bytes.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number * 8 + 2), static_cast<char>(bytes.size())} + bytes;
}
std::string entry(const std::string& key, const std::string& feature) {
  return field(1, field(1, key) + field(2, feature));
}
std::string bytes_of(const void* from, std::size_t size) {
  return {static_cast<const char*>(from), size};
}

const std::vector<std::int16_t> kVoxels = {0, 1, -2, 32767};
const std::vector<float> kTargets = {0.5f, -1.25f};
const std::string kX = field(1, field(1, bytes_of(kVoxels.data(), 8)));
const std::string kY = field(2, field(1, bytes_of(kTargets.data(), 8)));

struct Decoded {
  std::string voxel_bytes, label_bytes;
  std::vector<float> targets;
};

/// Decodes a payload that is read in pieces of at most `piece` bytes.
Decoded decode(ExampleDecoder& decoder, const std::string& payload, std::int64_t piece) {
  std::size_t at = 0;
  Decoded decoded;
  const auto source = [&](void* dst, std::int64_t count) {
    const auto size = std::min(
        {payload.size() - at, static_cast<std::size_t>(count), static_cast<std::size_t>(piece)});
    std::memcpy(dst, payload.data() + at, size);
    at += size;
    return static_cast<std::int64_t>(size);
  };
  const auto into = [](std::string& all) {
    return [&](std::int64_t first, Hdf5Type type, std::span<const std::byte> elements) {
      CHECK(first * size_of(type) == static_cast<std::int64_t>(all.size()));
      all += bytes_of(elements.data(), elements.size());
    };
  };
  const auto contents =
      decoder.decode(static_cast<std::int64_t>(payload.size()), source, into(decoded.voxel_bytes),
                     into(decoded.label_bytes), "some.tfrecord", 7);
  decoded.targets.assign(contents.numbers.begin(), contents.numbers.end());
  const auto check_count = [](const ExampleDecoder::Feature& found, const std::string& bytes) {
    CHECK(found.count * size_of(found.type.value_or(Hdf5Type::kUint8)) ==
          static_cast<std::int64_t>(bytes.size()));
  };
  check_count(contents.voxels, decoded.voxel_bytes);
  check_count(contents.labels, decoded.label_bytes);
  at = 0;
  const auto skip = [&](std::int64_t count) {
    at += static_cast<std::size_t>(count);
    return count;
  };
  const auto outline =
      decoder.outline(static_cast<std::int64_t>(payload.size()), source, skip, "some.tfrecord", 7);
  for (const auto feature : {&ExampleDecoder::Contents::voxels, &ExampleDecoder::Contents::labels,
                             &ExampleDecoder::Contents::targets}) {
    CHECK((outline.*feature).count == (contents.*feature).count);
    CHECK((outline.*feature).type == (contents.*feature).type);
  }
  return decoded;
}

std::string error_of(const std::string& payload) {
  ExampleDecoder decoder;
  try {
    decode(decoder, payload, 5);
  } catch (const Error& error) {
    CHECK_FALSE(error.hint().empty());
    const std::string what = error.what(), place = "some.tfrecord: record 7: ";
    CHECK(what.substr(0, place.size()) == place);
    return what.substr(place.size());
  }
  return {};
}

TEST_CASE("example: the wire format is tf.train.Example's") {
  CHECK(encode_example(kVoxels, kTargets) == field(1, entry("x", kX) + entry("y", kY)));
}

TEST_CASE("example: a benchmark sample's file has 71 bytes more than its voxels") {
  const std::vector<std::int16_t> voxels(128 * 128 * 128 * 4);
  const std::vector<float> targets(4);
  const auto payload = static_cast<std::int64_t>(encode_example(voxels, targets).size());
  CHECK(payload + kTfRecordFramingBytes == 16777287);
  CHECK(payload + kTfRecordFramingBytes == static_cast<std::int64_t>(voxels.size() * 2) + 71);
}

TEST_CASE("example: read in any order of features, packed or not, further ones ignored") {
  std::string unpacked;
  for (const float target : kTargets) unpacked += "\x0d" + bytes_of(&target, sizeof target);
  const std::vector<std::string> payloads = {
      field(1, entry("x", kX) + entry("y", kY)), field(1, entry("y", kY) + entry("x", kX)),
      field(1, entry("id", field(3, field(1, "\x05"))) + entry("y", field(2, unpacked)) +
                   entry("x", kX)),
      field(1, entry("x", kX)) + field(1, entry("y", kY))};
  ExampleDecoder decoder;
  std::int64_t compared = 0;
  for (const std::int64_t piece : {1, 3, 1000})
    for (const std::string& payload : payloads) {
      const Decoded decoded = decode(decoder, payload, piece);
      CHECK(decoded.voxel_bytes == bytes_of(kVoxels.data(), 8));
      CHECK(decoded.targets == kTargets);
      ++compared;
    }
  CHECK(compared == 12);
}

TEST_CASE("example: voxels, labels and targets may be lists of floats or integers, packed or not") {
  const std::vector<std::int64_t> integers = {3, -1, 300};
  const std::string minus_one = std::string(9, '\xff') + '\x01',
                    packed = field(3, field(1, "\x03" + minus_one + "\xac\x02"));
  const std::string unpacked = field(3, "\x08\x03\x08" + minus_one + "\x08\xac\x02");
  ExampleDecoder decoder;
  for (const std::int64_t piece : {1, 3, 1000})
    for (const std::string& list : {packed, unpacked}) {
      const Decoded decoded = decode(
          decoder, field(1, entry("x", kY) + entry("labels", list) + entry("y", list)), piece);
      CHECK(decoded.voxel_bytes == bytes_of(kTargets.data(), 8));
      CHECK(decoded.label_bytes == bytes_of(integers.data(), 24));
      CHECK(decoded.targets == std::vector<float>{3, -1, 300});
    }
  const Decoded bytes = decode(decoder, field(1, entry("labels", kX) + entry("x", packed)), 1);
  CHECK(bytes.label_bytes == bytes_of(kVoxels.data(), 8));
  CHECK(bytes.voxel_bytes == bytes_of(integers.data(), 24));
  CHECK(bytes.targets.empty());
}

TEST_CASE("example: payloads that are not samples are refused") {
  CHECK(error_of("garbage") == "the payload is not a tf.train.Example");
  CHECK(error_of("") == "feature x (voxels) is missing");
  CHECK(error_of(field(1, entry("y", kY))) == "feature x (voxels) is missing");
  CHECK(error_of(field(1, entry("x", kX))).empty());  // targets may be elsewhere
  CHECK(error_of(field(1, entry("x", kX) + entry("x", kX))) == "feature x occurs twice");
  CHECK(error_of(field(1, entry("x", "") + entry("y", kY))) ==
        "feature x must be one byte string or a list of numbers");
  CHECK(error_of(field(1, entry("x", kX) + entry("y", kX))) ==
        "feature y must be a list of numbers");
  const std::string two = field(1, field(1, "ab") + field(1, "cd"));
  CHECK(error_of(field(1, entry("x", two) + entry("y", kY))) ==
        "feature x must be one byte string or a list of numbers");
  CHECK(error_of(field(1, field(1, field(2, kX) + field(1, "x")) + entry("y", kY))) ==
        "a feature's value comes before its name");
}

TEST_CASE("example: a truncated payload is refused at every length") {
  const std::string whole = encode_example(kVoxels, kTargets);
  std::int64_t refused = 0;
  for (std::size_t size = 0; size < whole.size(); ++size)
    refused += error_of(whole.substr(0, size)).empty() ? 0 : 1;
  CHECK(refused == static_cast<std::int64_t>(whole.size()));
  CHECK(refused > 30);
}

}  // namespace
}  // namespace halomesh
