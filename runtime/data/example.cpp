// SPDX-License-Identifier: Apache-2.0
// A tf.train.Example by protobuf: written whole, read piece by piece.
#include "runtime/data/example.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "error.hpp"
#include "runtime/data/example.pb.h"

namespace halomesh {
namespace {

namespace wire = google::protobuf::io;

// These are the field numbers of example.proto.
constexpr int kFeatures = 1, kEntry = 1, kKey = 1, kValue = 2, kBytesList = 1, kFloatList = 2,
              kListValue = 1;
// These are the wire types (Protocol Buffers, "Encoding").
constexpr std::uint32_t kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5;

// A piece of voxels should stay in a core's cache; the other fields are small.
constexpr int kBufferBytes = 1 << 17, kOutlineBytes = 1 << 10;

/// Walks the fields of an Example; every function returns false if the bytes are invalid.
class ExampleWalk {
 public:
  ExampleWalk(wire::CodedInputStream& in, const VoxelSink& sink, std::vector<float>& targets)
      : in_(in), sink_(sink), targets_(targets) {}

  bool example() {
    return fields([&](int number, std::uint32_t type) {
      return number == kFeatures && type == kDelimited ? message([&] { return features(); })
                                                       : skip(type);
    });
  }
  const char* problem = nullptr;  ///< describes the error in x or y
  int x_seen = 0, y_seen = 0;
  std::int64_t voxel_bytes = 0;

 private:
  template <class Visit>
  bool fields(const Visit& visit) {
    while (const std::uint32_t tag = in_.ReadTag())
      if (!visit(static_cast<int>(tag >> 3U), tag & 7U)) return false;
    return in_.ConsumedEntireMessage();
  }
  template <class Body>
  bool message(const Body& body) {
    std::uint32_t length = 0;
    // The library would clip a limit that exceeds the enclosing one, and a truncated message would
    // appear complete.
    if (!in_.ReadVarint32(&length) || static_cast<std::int64_t>(length) > in_.BytesUntilLimit())
      return false;
    const auto limit = in_.PushLimit(static_cast<int>(length));
    const bool good = body() && in_.BytesUntilLimit() == 0;
    in_.PopLimit(limit);
    return good;
  }
  bool skip(std::uint32_t type) {
    std::uint64_t number = 0;
    std::uint32_t length = 0;
    switch (type) {
      case kVarint:
        return in_.ReadVarint64(&number);
      case kFixed64:
        return in_.Skip(8);
      case kFixed32:
        return in_.Skip(4);
      case kDelimited:
        return in_.ReadVarint32(&length) && length <= 0x7fffffffU &&
               in_.Skip(static_cast<int>(length));
      default:
        return false;
    }
  }
  void complain(const char* text) { problem = problem == nullptr ? text : problem; }

  bool features() {
    return fields([&](int number, std::uint32_t type) {
      return number == kEntry && type == kDelimited ? message([&] { return entry(); }) : skip(type);
    });
  }
  bool entry() {
    std::string key;
    return fields([&](int number, std::uint32_t type) {
      if (number == kKey && type == kDelimited) {
        std::uint32_t length = 0;
        return in_.ReadVarint32(&length) && length <= 0x7fffffffU &&
               in_.ReadString(&key, static_cast<int>(length));
      }
      if (number != kValue || type != kDelimited) return skip(type);
      if (key == "x") return message([&] { return voxels(); });
      if (key == "y") return message([&] { return numbers(); });
      if (key.empty()) complain("a feature's value comes before its name");
      return skip(type);
    });
  }
  bool voxels() {
    if (++x_seen > 1) complain("feature x occurs twice");
    int strings = 0;
    const bool good = fields([&](int list, std::uint32_t type) {
      if (list != kBytesList || type != kDelimited) return skip(type);
      return message([&] {
        return fields([&](int number, std::uint32_t item) {
          if (number != kListValue || item != kDelimited) return skip(item);
          if (++strings > 1) complain("feature x must be one byte string");
          return message([&] { return hand_on(); });
        });
      });
    });
    if (strings == 0) complain("feature x must be one byte string");
    return good;
  }
  bool hand_on() {
    const void* bytes = nullptr;
    int size = 0;
    const std::int64_t before = voxel_bytes;
    if (!sink_) {
      voxel_bytes += in_.BytesUntilLimit();
      return in_.Skip(in_.BytesUntilLimit());
    }
    while (in_.BytesUntilLimit() > 0) {
      if (!in_.GetDirectBufferPointer(&bytes, &size)) return false;
      size = std::min(size, in_.BytesUntilLimit());
      if (problem == nullptr)
        sink_(voxel_bytes - before,
              {static_cast<const std::byte*>(bytes), static_cast<std::size_t>(size)});
      voxel_bytes += size;
      in_.Skip(size);
    }
    return true;
  }
  bool numbers() {
    if (++y_seen > 1) complain("feature y occurs twice");
    bool listed = false;
    const bool good = fields([&](int list, std::uint32_t type) {
      if (list != kFloatList || type != kDelimited) return skip(type);
      listed = true;
      return message([&] {
        return fields([&](int number, std::uint32_t item) {
          if (number == kListValue && item == kFixed32) return number_of(targets_);
          if (number != kListValue || item != kDelimited) return skip(item);
          return message([&] {
            while (in_.BytesUntilLimit() > 0)
              if (!number_of(targets_)) return false;
            return true;
          });
        });
      });
    });
    if (!listed) complain("feature y must be a list of floats");
    return good;
  }
  bool number_of(std::vector<float>& list) {
    std::uint32_t bits = 0;
    if (!in_.ReadLittleEndian32(&bits)) return false;
    list.push_back(std::bit_cast<float>(bits));
    return true;
  }

  wire::CodedInputStream& in_;
  const VoxelSink& sink_;
  std::vector<float>& targets_;
};

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
  require(example.SerializeToString(&payload),
          text("a sample of {} voxels does not fit the 2 GiB of a tf.train.Example", voxels.size()),
          "cut the sample into smaller boxes");
  return payload;
}

struct ExampleDecoder::Buffers {
  std::vector<float> targets;
};

ExampleDecoder::ExampleDecoder() : buffers_(std::make_unique<Buffers>()) {}
ExampleDecoder::~ExampleDecoder() = default;

/// A payload as an input stream of the library.
class ExampleDecoder::Payload final : public wire::CopyingInputStream {
 public:
  explicit Payload(const PayloadSource& source, PayloadSkip skip = {})
      : source_(source), skip_(std::move(skip)) {}
  int Read(void* buffer, int size) override { return static_cast<int>(source_(buffer, size)); }
  int Skip(int count) override {
    return skip_ ? static_cast<int>(skip_(count)) : CopyingInputStream::Skip(count);
  }

 private:
  const PayloadSource& source_;
  PayloadSkip skip_;
};

ExampleDecoder::Contents ExampleDecoder::decode(std::int64_t length, const PayloadSource& source,
                                                const VoxelSink& sink, std::string_view file,
                                                std::int64_t record) {
  Payload payload(source);
  return walk(length, payload, kBufferBytes, sink, file, record);
}

ExampleDecoder::Contents ExampleDecoder::outline(std::int64_t length, const PayloadSource& source,
                                                 const PayloadSkip& skip, std::string_view file,
                                                 std::int64_t record) {
  Payload payload(source, skip);
  return walk(length, payload, kOutlineBytes, {}, file, record);
}

ExampleDecoder::Contents ExampleDecoder::walk(std::int64_t length, Payload& payload,
                                              int buffer_bytes, const VoxelSink& sink,
                                              std::string_view file, std::int64_t record) {
  const auto check = [&](bool good, const char* what) {
    if (!good)
      throw Error(fmt::format("{}: record {}: {}", file, record, what),
                  "the data set must be in the CosmoFlow benchmark's TFRecord format");
  };
  check(length < std::numeric_limits<int>::max(), "the payload is too long for a tf.train.Example");
  buffers_->targets.clear();
  wire::CopyingInputStreamAdaptor stream(&payload, buffer_bytes);
  wire::CodedInputStream in(&stream);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  const auto whole = in.PushLimit(static_cast<int>(length));
  ExampleWalk walk(in, sink, buffers_->targets);
  const bool good = walk.example();
  in.PopLimit(whole);
  check(good, "the payload is not a tf.train.Example");
  check(walk.problem == nullptr, walk.problem);
  check(walk.x_seen == 1, "feature x (voxels) is missing");
  check(walk.y_seen == 1, "feature y (targets) is missing");
  return {walk.voxel_bytes, buffers_->targets};
}

}  // namespace halomesh
