// One sample as it is stored in a record: a tf.train.Example of int16 counts and float targets.
// Knows nothing of files, of sample shapes or of what the targets mean.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace halomesh {

/// A tf.train.Example with the features `x` (one byte string: int16 little-endian, as given, i.e.
/// D,H,W,C order) and `y` (floats), serialised as a record's payload.
std::string encode_example(std::span<const std::int16_t> voxels, std::span<const float> targets);

/// What encode_example() put together; views into the decoder.
struct ExampleView {
  std::string_view voxel_bytes;    // int16 little-endian
  std::span<const float> targets;  // as stored, unchecked
};

/// Takes records apart; its buffers are reused from one record to the next.
class ExampleDecoder {
 public:
  ExampleDecoder();
  ExampleDecoder(const ExampleDecoder&) = delete;
  ExampleDecoder& operator=(const ExampleDecoder&) = delete;
  ~ExampleDecoder();

  /// The view is valid until the next decode(). `file` and `record` are for messages. Throws Error
  /// when the payload is no Example, or x or y is missing, repeated or of another type.
  ExampleView decode(std::string_view payload, std::string_view file, std::int64_t record);

 private:
  struct Message;
  std::unique_ptr<Message> message_;
};

/// Converts `count` int16 little-endian counts x at `from` to float(log(1+x)), rounded once from
/// the double logarithm. False if a count is negative: its logarithm would be meaningless.
bool log_counts(const char* from, std::int64_t count, float* dst);

}  // namespace halomesh
