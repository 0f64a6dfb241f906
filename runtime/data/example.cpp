// SPDX-License-Identifier: Apache-2.0
// A tf.train.Example by protobuf: written whole, read piece by piece.
#include "runtime/data/example.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "error.hpp"
#include "runtime/data/example.pb.h"

namespace halomesh {
namespace {

namespace wire = google::protobuf::io;

// These are the field numbers of example.proto.
constexpr int kFeatures = 1, kEntry = 1, kKey = 1, kValue = 2, kBytesList = 1, kFloatList = 2,
              kIntegerList = 3, kListValue = 1;
// These are the wire types (Protocol Buffers, "Encoding").
constexpr std::uint32_t kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5;

// A piece of voxels should stay in a core's cache; the other fields are small.
constexpr int kBufferBytes = 1 << 17, kOutlineBytes = 1 << 10;

/// The most elements of a list that are handed on at once.
constexpr std::size_t kBlockElements = 1 << 12;

using FoundFeature = ExampleDecoder::Feature;

/// Walks the fields of an Example; every function returns false if the bytes are invalid.
class ExampleWalk {
 public:
  ExampleWalk(wire::CodedInputStream& in, const ElementSink& voxels, const ElementSink& labels,
              std::vector<float>& numbers)
      : in_(in), voxels_(voxels), labels_(labels), numbers_(numbers) {}

  bool example() {
    return fields([&](int number, std::uint32_t type) {
      return number == kFeatures && type == kDelimited ? message([&] { return features(); })
                                                       : skip(type);
    });
  }
  std::string problem;  ///< describes the first error in a feature
  ExampleDecoder::Contents found;

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
  void complain(const std::string& text) { problem = problem.empty() ? text : problem; }

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
      const auto take = [&](FoundFeature& into, const ElementSink& sink) {
        return message([&] { return feature(key, into, sink); });
      };
      if (key == "x") return take(found.voxels, voxels_);
      if (key == "labels") return take(found.labels, labels_);
      if (key == "y") return take(found.targets, keep_);
      if (key.empty()) complain("a feature's value comes before its name");
      return skip(type);
    });
  }
  /// A byte string or a list of numbers; targets are a list.
  bool feature(const std::string& key, FoundFeature& into, const ElementSink& sink) {
    if (into.type) complain(fmt::format("feature {} occurs twice", key));
    const bool may_be_bytes = &into != &found.targets;
    const auto expected = [&] {
      complain(fmt::format("feature {} must be {}a list of numbers", key,
                           may_be_bytes ? "one byte string or " : ""));
    };
    int strings = 0;
    const bool good = fields([&](int list, std::uint32_t type) {
      if (type != kDelimited || list < kBytesList || list > kIntegerList) return skip(type);
      into.type = list == kBytesList   ? Hdf5Type::kUint8
                  : list == kFloatList ? Hdf5Type::kFloat
                                       : Hdf5Type::kInt64;
      if (list == kFloatList) return message([&] { return elements<float>(into, sink); });
      if (list == kIntegerList) return message([&] { return elements<std::int64_t>(into, sink); });
      return message([&] {
        return fields([&](int number, std::uint32_t item) {
          if (number != kListValue || item != kDelimited) return skip(item);
          if (++strings > 1 || !may_be_bytes) expected();
          return message([&] { return hand_on(into, sink); });
        });
      });
    });
    if (!into.type || (into.type == Hdf5Type::kUint8 && strings == 0)) expected();
    return good;
  }
  /// Hands on the bytes of a string.
  bool hand_on(FoundFeature& into, const ElementSink& sink) {
    if (!sink) {
      into.count += in_.BytesUntilLimit();
      return in_.Skip(in_.BytesUntilLimit());
    }
    std::vector<std::byte> block;
    while (in_.BytesUntilLimit() > 0) {
      const int size = std::min(in_.BytesUntilLimit(), kBufferBytes);
      block.resize(static_cast<std::size_t>(size));
      if (!in_.ReadRaw(block.data(), size)) return false;
      if (problem.empty()) sink(into.count, Hdf5Type::kUint8, block);
      into.count += size;
    }
    return true;
  }
  /// Hands on the numbers of a list, packed or not.
  template <class T>
  bool elements(FoundFeature& into, const ElementSink& sink) {
    std::vector<T> block;
    const auto flush = [&] {
      if (sink && problem.empty())
        sink(into.count, hdf5_type<T>(), std::as_writable_bytes(std::span(block)));
      into.count += std::ssize(block);
      block.clear();
    };
    const auto one = [&] {
      if (!read(block.emplace_back())) return false;
      if (block.size() == kBlockElements) flush();
      return true;
    };
    const bool good = fields([&](int number, std::uint32_t item) {
      if (number != kListValue) return skip(item);
      if (item == (std::is_same_v<T, float> ? kFixed32 : kVarint)) return one();
      if (item != kDelimited) return skip(item);
      return message([&] {
        if (std::is_same_v<T, float> && !sink) {
          into.count += in_.BytesUntilLimit() / 4;
          return in_.Skip(in_.BytesUntilLimit());
        }
        while (in_.BytesUntilLimit() > 0)
          if (!one()) return false;
        return true;
      });
    });
    flush();
    return good;
  }
  bool read(float& number) {
    std::uint32_t bits = 0;
    const bool good = in_.ReadLittleEndian32(&bits);
    number = std::bit_cast<float>(bits);
    return good;
  }
  bool read(std::int64_t& number) {
    std::uint64_t bits = 0;
    const bool good = in_.ReadVarint64(&bits);
    number = std::bit_cast<std::int64_t>(bits);
    return good;
  }

  wire::CodedInputStream& in_;
  const ElementSink &voxels_, &labels_;
  std::vector<float>& numbers_;
  const ElementSink keep_ = [this](std::int64_t, Hdf5Type type, auto elements) {
    with_type(type, [&](auto element) {
      const auto* const from =
          reinterpret_cast<const decltype(element)*>(elements.data());  // NOLINT
      for (std::size_t i = 0; i < elements.size() / sizeof element; ++i)
        numbers_.push_back(static_cast<float>(from[i]));
    });
  };
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
                                                const ElementSink& voxels,
                                                const ElementSink& labels, std::string_view file,
                                                std::int64_t record) {
  Payload payload(source);
  return walk(length, payload, kBufferBytes, voxels, labels, file, record);
}

ExampleDecoder::Contents ExampleDecoder::outline(std::int64_t length, const PayloadSource& source,
                                                 const PayloadSkip& skip, std::string_view file,
                                                 std::int64_t record) {
  Payload payload(source, skip);
  return walk(length, payload, kOutlineBytes, {}, {}, file, record);
}

ExampleDecoder::Contents ExampleDecoder::walk(std::int64_t length, Payload& payload,
                                              int buffer_bytes, const ElementSink& voxels,
                                              const ElementSink& labels, std::string_view file,
                                              std::int64_t record) {
  const auto check = [&](bool good, std::string_view what) {
    if (!good)
      throw Error(fmt::format("{}: record {}: {}", file, record, what),
                  "a record must be a tf.train.Example with the features x and y or labels");
  };
  check(length < std::numeric_limits<int>::max(), "the payload is too long for a tf.train.Example");
  buffers_->targets.clear();
  wire::CopyingInputStreamAdaptor stream(&payload, buffer_bytes);
  wire::CodedInputStream in(&stream);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  const auto whole = in.PushLimit(static_cast<int>(length));
  ExampleWalk walk(in, voxels, labels, buffers_->targets);
  const bool good = walk.example();
  in.PopLimit(whole);
  check(good, "the payload is not a tf.train.Example");
  check(walk.problem.empty(), walk.problem);
  check(walk.found.voxels.type.has_value(), "feature x (voxels) is missing");
  walk.found.numbers = buffers_->targets;
  return walk.found;
}

}  // namespace halomesh
