// tf.train.Example by protobuf, and the transform of its counts.
// Knows nothing of files, of sample shapes or of what the targets mean.
#include "runtime/example.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "error.hpp"
#include "runtime/example.pb.h"

namespace halomesh {
namespace {

/// float(log(1+x)) of every count.
const std::array<float, 32768>& log_table() {
  static const std::array<float, 32768> kTable = [] {
    std::array<float, 32768> t{};
    for (std::size_t x = 0; x < t.size(); ++x)
      t[x] = static_cast<float>(std::log1p(static_cast<double>(x)));
    return t;
  }();
  return kTable;
}

}  // namespace

std::string encode_example(std::span<const std::int16_t> voxels, std::span<const float> targets) {
  Example example;
  FeatureEntry& x = *example.mutable_features()->add_feature();
  x.set_key("x");
  x.mutable_value()->mutable_bytes_list()->add_value(voxels.data(), voxels.size_bytes());
  FeatureEntry& y = *example.mutable_features()->add_feature();
  y.set_key("y");
  y.mutable_value()->mutable_float_list()->mutable_value()->Add(targets.begin(), targets.end());
  std::string payload;
  require(
      example.SerializeToString(&payload),
      cat("a sample of ", voxels.size(), " voxels does not fit the 2 GiB of a tf.train.Example"),
      "cut the sample into smaller boxes");
  return payload;
}

struct ExampleDecoder::Message {
  Example example;
};

ExampleDecoder::ExampleDecoder() : message_(std::make_unique<Message>()) {}
ExampleDecoder::~ExampleDecoder() = default;

ExampleView ExampleDecoder::decode(std::string_view payload, std::string_view file,
                                   std::int64_t record) {
  const auto check = [&](bool good, const char* what) {
    if (!good)
      throw Error(cat(file, ": record ", record, ": ", what),
                  "the data set must be in the CosmoFlow benchmark's TFRecord format");
  };
  Example& example = message_->example;
  check(payload.size() <= std::numeric_limits<int>::max() &&
            example.ParseFromArray(payload.data(), static_cast<int>(payload.size())),
        "the payload is not a tf.train.Example");
  const Feature *x = nullptr, *y = nullptr;
  for (const FeatureEntry& entry : example.features().feature()) {
    const Feature*& found = entry.key() == "x" ? x : y;
    if (entry.key() != "x" && entry.key() != "y") continue;
    check(found == nullptr,
          entry.key() == "x" ? "feature x occurs twice" : "feature y occurs twice");
    found = &entry.value();
  }
  check(x != nullptr, "feature x (voxels) is missing");
  check(y != nullptr, "feature y (targets) is missing");
  check(x->bytes_list().value_size() == 1, "feature x must be one byte string");
  check(y->has_float_list(), "feature y must be a list of floats");
  const auto& targets = y->float_list().value();
  return {x->bytes_list().value(0), {targets.data(), static_cast<std::size_t>(targets.size())}};
}

bool log_counts(const char* from, std::int64_t count, float* dst) {
  const std::array<float, 32768>& table = log_table();
  unsigned seen = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t x = 0;
    std::memcpy(&x, from + 2 * i, sizeof x);
    seen |= x;
    dst[i] = table[x & 0x7FFFu];
  }
  return (seen & 0x8000u) == 0;
}

}  // namespace halomesh
