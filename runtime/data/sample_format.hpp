// SPDX-License-Identifier: Apache-2.0
// The kinds of values in a data set: how they are stored, which are invalid, and how a network
// receives them. Must not depend on the layout of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/hdf5/hdf5_types.hpp"
#include "shape.hpp"
#include "src/nn/data_type.hpp"

namespace halomesh {

/// The range of a channel, which is mapped to [0, 1].
struct ChannelRange {
  float min = 0, max = 1;
  friend bool operator==(const ChannelRange&, const ChannelRange&) = default;
};

/// An invalid value of a data set.
struct InvalidValue {
  std::int64_t index = 0;  ///< index in the sample or block, in d,h,w,c order
  double value = 0;
};

/// One tensor of every sample: its image, or the labels of its voxels. A value type.
///
///     kind      in files                    as readers deliver it     a network gets
///     counts    int16, not negative         int16                     log(1+x)
///     field     floats, finite, or integers fp32, each channel        the same
///               but int16                   (x - min) / (max - min)
///     labels    any integers, or floats     uint8                     the same (a loss, rather)
///               without fraction: 0 to C-1
///
/// Stages, messages and transformations see only type().
class SampleFormat {
 public:
  enum class Kind : std::uint8_t { kCounts, kField, kLabels };

  static SampleFormat counts() { return {}; }
  /// `ranges` has one range per channel, or none: then values stay as stored. Throws Error for a
  /// range that is empty or not finite.
  static SampleFormat field(std::vector<ChannelRange> ranges = {});
  /// Makes labels 0 .. classes-1 of 1 to 256 classes. Throws Error for other numbers.
  static SampleFormat labels(std::int64_t classes);

  Kind kind() const { return kind_; }
  const std::vector<ChannelRange>& ranges() const { return ranges_; }
  std::int64_t classes() const { return classes_; }
  /// The type of the values that readers deliver.
  DataType type() const;
  /// True if files may store such values in elements of `stored`.
  bool accepts(Hdf5Type stored) const;
  /// True if the stored elements are the values already, so that convert() only checks them.
  bool is_stored_as(Hdf5Type stored) const;

  /// Writes the values of `stored` elements to `values`, of type(): dense rows of `channels`
  /// channels, the first of which is channel `first` of the sample. Both are aligned for their
  /// elements, and may share memory if is_stored_as(). Returns the first invalid value by its index
  /// in the span; `values` is then incomplete. Runs on the calling thread.
  std::optional<InvalidValue> convert(Hdf5Type stored, std::span<const std::byte> elements,
                                      std::int64_t first, std::int64_t channels,
                                      std::span<std::byte> values) const;

  /// The description of valid values, such as "a count of 0 or more", for messages.
  std::string expected() const;
  /// The hint for an invalid value.
  std::string cure() const;

  friend bool operator==(const SampleFormat&, const SampleFormat&) = default;

 private:
  Kind kind_ = Kind::kCounts;
  std::vector<ChannelRange> ranges_;
  std::int64_t classes_ = 0;
};

/// The values that scalars may have, beside being finite.
struct TargetLimits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool are_labels = false;  ///< integers
  std::string cure{};       ///< the hint for others
};

/// The targets that a data set must have: scalars, a label for each voxel, or none.
struct TargetSpec {
  std::int64_t scalars = 0;  ///< their number
  std::int64_t classes = 0;  ///< for labels; 0: scalars
  TargetLimits limits{};     ///< the values that scalars may have

  TargetSpec(std::int64_t count)
      : scalars(count) {}  // NOLINT(google-explicit-constructor): scalars
  static TargetSpec labels(std::int64_t classes) {
    TargetSpec spec(0);
    spec.classes = classes;
    return spec;
  }
  static TargetSpec none() { return {0}; }
  bool is_none() const { return scalars == 0 && classes == 0; }
  /// The shape of the targets of a sample of this shape.
  Shape shape(const Shape& sample) const {
    return classes > 0 ? Shape{1, sample.d, sample.h, sample.w} : Shape{scalars, 1, 1, 1};
  }
  DataType type() const { return classes > 0 ? DataType::kUint8 : DataType::kFloat32; }
};

}  // namespace halomesh
