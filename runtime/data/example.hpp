// SPDX-License-Identifier: Apache-2.0
// A sample as stored in a record: a tf.train.Example of voxels and targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/hdf5/hdf5_types.hpp"

namespace halomesh {

/// A tf.train.Example with the features `x` (one byte string: int16 little-endian, as given, i.e.
/// D,H,W,C order) and `y` (floats), serialised as a record's payload.
std::string encode_example(std::span<const std::int16_t> voxels, std::span<const float> targets);

/// Supplies the next bytes of a payload: writes up to `count` to `dst` and returns how many, 0 at
/// the payload's end.
using PayloadSource = std::function<std::int64_t(void* dst, std::int64_t count)>;

/// Skips up to `count` of the next bytes of a payload; returns how many, 0 at the payload's end.
using PayloadSkip = std::function<std::int64_t(std::int64_t count)>;

/// Takes elements of a feature, of which `first` have come before: numbers of a list, as kFloat or
/// kInt64, or as kUint8 a multiple of 8 bytes of a byte string, or its end. They are aligned, and
/// may be changed.
using ElementSink =
    std::function<void(std::int64_t first, Hdf5Type type, std::span<std::byte> elements)>;

/// Parses records as they are read: voxels and labels are passed on piece by piece, so that a whole
/// sample is never in memory. Buffers are reused for all records.
class ExampleDecoder {
 public:
  ExampleDecoder();
  ExampleDecoder(const ExampleDecoder&) = delete;
  ExampleDecoder& operator=(const ExampleDecoder&) = delete;
  ~ExampleDecoder();

  /// A feature: a number of elements of this type, as in ElementSink; without a type, none.
  struct Feature {
    std::optional<Hdf5Type> type{};
    std::int64_t count = 0;
  };
  /// The content of a record; the view is valid until the next decode().
  struct Contents {
    Feature voxels, labels, targets;
    std::span<const float> numbers;  ///< the elements of `targets` as stored, unchecked
  };
  /// Throws Error if the payload of `length` bytes is not an Example, if x is missing, if x, y or
  /// labels are repeated or of another type, or if a feature's value comes before its name (which
  /// no writer does). Exceptions of `source` and the sinks pass through. `file` and `record` are
  /// for messages. Labels without a sink are skipped.
  Contents decode(std::int64_t length, const PayloadSource& source, const ElementSink& voxels,
                  const ElementSink& labels, std::string_view file, std::int64_t record);
  /// Decodes likewise, but skips voxels and labels without reading most of them.
  Contents outline(std::int64_t length, const PayloadSource& source, const PayloadSkip& skip,
                   std::string_view file, std::int64_t record);

 private:
  class Payload;
  Contents walk(std::int64_t length, Payload& payload, int buffer_bytes, const ElementSink& voxels,
                const ElementSink& labels, std::string_view file, std::int64_t record);
  struct Buffers;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace halomesh
