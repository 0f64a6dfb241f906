// Samples in records: literal wire bytes, the benchmark's file size, wrong messages, log(1+x).
// Knows nothing of files.
#include "runtime/example.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "error.hpp"
#include "runtime/tfrecord.hpp"

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

std::string error_of(const std::string& payload) {
  ExampleDecoder decoder;
  try {
    decoder.decode(payload, "some.tfrecord", 7);
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
  for (int round = 0; round < 2; ++round)
    for (const std::string& payload : payloads) {
      const ExampleView view = decoder.decode(payload, "f", 0);
      CHECK(view.voxel_bytes == bytes_of(kVoxels.data(), 8));
      CHECK(std::vector<float>(view.targets.begin(), view.targets.end()) == kTargets);
      ++compared;
    }
  CHECK(compared == 8);
}

TEST_CASE("example: what is no sample is refused") {
  CHECK(error_of("garbage") == "the payload is not a tf.train.Example");
  CHECK(error_of("") == "feature x (voxels) is missing");
  CHECK(error_of(field(1, entry("y", kY))) == "feature x (voxels) is missing");
  CHECK(error_of(field(1, entry("x", kX))) == "feature y (targets) is missing");
  CHECK(error_of(field(1, entry("x", kX) + entry("x", kX))) == "feature x occurs twice");
  CHECK(error_of(field(1, entry("x", kY) + entry("y", kY))) == "feature x must be one byte string");
  CHECK(error_of(field(1, entry("x", kX) + entry("y", kX))) ==
        "feature y must be a list of floats");
  const std::string two = field(1, field(1, "ab") + field(1, "cd"));
  CHECK(error_of(field(1, entry("x", two) + entry("y", kY))) ==
        "feature x must be one byte string");
}

TEST_CASE("example: a cut payload is refused at every length") {
  const std::string whole = encode_example(kVoxels, kTargets);
  std::int64_t refused = 0;
  for (std::size_t size = 0; size < whole.size(); ++size)
    refused += error_of(whole.substr(0, size)).empty() ? 0 : 1;
  CHECK(refused == static_cast<std::int64_t>(whole.size()));
  CHECK(refused > 30);
}

TEST_CASE("example: log(1+x) of every count; negative counts are told") {
  std::vector<std::int16_t> counts;
  for (int x = 0; x <= 32767; ++x) counts.push_back(static_cast<std::int16_t>(x));
  std::vector<float> logs(counts.size());
  REQUIRE(log_counts(bytes_of(counts.data(), 65536).data(), 32768, logs.data()));
  CHECK(logs[0] == 0.0f);
  double worst = 0;
  for (std::size_t x = 1; x < logs.size(); ++x) {
    const double exact = std::log(1.0 + static_cast<double>(x));
    worst = std::max(worst, std::abs(logs[x] - exact) / exact);
  }
  // Half a unit in the last place of a float, and two double functions that differ by some ulp.
  CHECK(worst <= 0x1p-24 + 8 * 0x1p-53);
  CHECK(worst > 0);
  const std::int16_t negative[] = {3, -1};
  CHECK(log_counts(bytes_of(negative, 4).data(), 1, logs.data()));
  CHECK_FALSE(log_counts(bytes_of(negative, 4).data(), 2, logs.data()));
}

}  // namespace
}  // namespace halomesh
