// SPDX-License-Identifier: Apache-2.0
// The samples of one split: their number, shape and readers, for any file format.
// Must not depend on the formats (see open_dataset.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "partition/samples/tiles.hpp"
#include "runtime/data/sample_format.hpp"
#include "runtime/data/voxel_sink.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Maps the indices d, h, w of a voxel to its position in space, in mm: the rows x, y and z of a 3
/// x 4 matrix, whose last column is the position of the first voxel.
using VoxelTransform = std::array<double, 12>;

/// An affine with the distances between voxels of `affine`, of which nothing else is known.
inline VoxelTransform spacing_of(const VoxelTransform& affine) {
  VoxelTransform spacing{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    spacing[5 * axis] = std::hypot(affine[axis], affine[4 + axis], affine[8 + axis]);
  return spacing;
}

/// Where the axes d, h and w point to, such as "RAS": to the right, the front and the head.
inline std::string axis_codes(const VoxelTransform& affine) {
  constexpr std::array<std::array<char, 2>, 3> kEnds{{{'R', 'L'}, {'A', 'P'}, {'S', 'I'}}};
  std::string codes;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::size_t most = 0;
    for (std::size_t row = 1; row < 3; ++row)
      if (std::abs(affine[4 * row + axis]) > std::abs(affine[4 * most + axis])) most = row;
    codes += kEnds[most][affine[4 * most + axis] < 0 ? 1 : 0];
  }
  return codes;
}

/// The position of a sample's voxels in space, as in NIfTI (nifti1.h, "3D image orientation"): two
/// affines, each with the code of the space to which it leads, or 0 if it is not set. With code 0,
/// the qform has the spacing of the voxels.
struct Orientation {
  VoxelTransform sform{}, qform{};
  std::int32_t sform_code = 0, qform_code = 0;
  /// The affine that counts.
  const VoxelTransform& affine() const { return sform_code > 0 ? sform : qform; }
  friend bool operator==(const Orientation&, const Orientation&) = default;
};

/// A sample's scalar targets as a tensor of shape {values.size(), 1, 1, 1}.
inline View scalars(std::span<float> values) {
  return {values.data(), Box::whole({std::ssize(values), 1, 1, 1}), 1};
}
/// Copies from the values of all channels those that `targets`, of scalars, spans.
void copy_scalars(std::span<const float> all, AnyView targets);

/// Reads blocks of samples, for one thread; no call is collective.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// The type of the samples' values, as in Dataset::format().
  virtual DataType type() const { return DataType::kInt16; }

  /// Writes the block dst.span (global coordinates) of sample number `sample`: values of type(), or
  /// log(1+x) of counts if dst is fp32; and the block targets.span of its targets, in the data
  /// set's type. Either may be empty. Throws Error naming the file, the record and the value.
  virtual void read(std::int64_t sample, AnyView dst, AnyView targets) = 0;
  /// Takes the values of a slab, of type(): dense, valid during the call.
  using SlabSink = std::function<void(AnyConstView slab)>;
  /// Passes the values of `box` to the sink slab by slab, in the order and form of slabs_of(); a
  /// slab is one of slabs(), or a piece as the file stores it. Otherwise acts as read(), which this
  /// default calls for each slab: override it if reading part of a box costs more than its share of
  /// the time.
  virtual void read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                          AnyView targets);
  /// Slabs of an eighth of the box, and of at most 512 KiB.
  static std::vector<Box> slabs(const Box& box, DataType type) {
    return slabs_of(box, std::min(512 * 1024 / size_of(type), box.volume() / 8));
  }

  /// Passes the values of a whole sample, of type(), to `sink` piece by piece as they are read;
  /// writes the block targets.span of its targets. Throws as read() does, possibly after pieces
  /// have been passed on, and if samples are not stored in files.
  virtual void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets);
  /// Passes on the targets of a sample likewise, if they are a field of labels.
  virtual void stream_labels(std::int64_t sample, const VoxelSink& sink);
  /// Announces that `sample` is read next, so that the reader may prefetch it.
  virtual void expect(std::int64_t /*sample*/) {}
};

class DatasetFiles;

/// The samples of one split, identical on every rank; immutable.
class Dataset {
 public:
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  /// The shape of all samples; if their extents differ, the largest extent along each axis.
  const Shape& shape() const { return shape_; }
  /// The shape of one sample.
  virtual Shape shape_of(std::int64_t /*sample*/) const { return shape_; }
  /// The kind of a sample's values.
  const SampleFormat& format() const { return format_; }
  /// The shape and type of a sample's targets: {T, 1, 1, 1} for T scalars, which are fp32; for
  /// labels, one channel of uint8.
  const Shape& target_shape() const { return target_shape_; }
  DataType target_type() const { return target_type_; }
  /// Values per voxel of the targets; for scalars, their number.
  std::int64_t targets() const { return target_shape_.c; }
  /// True if targets are a field of labels, which is cut and transformed as samples are.
  bool has_labels() const { return target_type_ == DataType::kUint8; }
  /// Labels are 0 .. classes()-1; 0 for scalars.
  std::int64_t classes() const { return classes_; }
  /// The values that scalar targets may have. Readers refuse others.
  const TargetLimits& target_limits() const { return target_limits_; }
  /// The name of a sample: its file's without extensions if the file has no other sample; otherwise
  /// with the sample's number in the file, such as "validation-00000:3".
  virtual std::string name(std::int64_t sample) const { return std::to_string(sample); }
  /// False if targets are unknown, and 0.
  virtual bool has_truth() const { return true; }
  /// The names of scalar targets, separated by commas; empty: unknown.
  virtual std::string target_titles() const { return {}; }
  /// The position of a sample's voxels in space; empty if its files do not give it.
  virtual std::optional<Orientation> orientation_of(std::int64_t /*sample*/) const {
    return std::nullopt;
  }
  /// Describes labels that are not at their images, as far as files give the position of voxels:
  /// names the sample and the distance; empty if all are, or positions are unknown.
  virtual std::string misplacement() const { return {}; }
  /// The directory of the files.
  virtual const std::filesystem::path& directory() const = 0;
  /// Identifies the data: changes whenever the directory or a file's name, size or modification
  /// time changes; the same on every rank.
  virtual const std::string& identity() const = 0;
  /// The files that hold the samples, or their directories; none of samples that are computed.
  virtual const DatasetFiles& files() const;
  /// A hash of what a file of files() holds: of its size, of the checksums in it and, where it has
  /// none of its data, of blocks of them; equal for copies. Reads a small part of the file.
  virtual std::uint64_t file_hash(std::int64_t /*file*/) const { return 0; }
  /// A note for users, e.g. that reading the files is slow; "" for none.
  virtual std::string advice() const { return {}; }

  /// Creates a reader, which buffers a small part of one sample. The data set must outlive it.
  virtual std::unique_ptr<SampleReader> reader() const = 0;

 protected:
  Dataset(const Shape& shape, const TargetSpec& targets,
          SampleFormat format = SampleFormat::counts())
      : shape_(shape),
        target_shape_(targets.shape(shape)),
        target_type_(targets.type()),
        classes_(targets.classes),
        target_limits_(targets.limits),
        format_(std::move(format)) {}

  /// Sets the extents of samples with labels or without targets, once they are known.
  void resize(const Spatial& extents) {
    shape_ = {shape_.c, extents[0], extents[1], extents[2]};
    if (has_labels()) target_shape_ = {1, extents[0], extents[1], extents[2]};
  }

 private:
  Shape shape_, target_shape_;
  DataType target_type_;
  std::int64_t classes_;
  TargetLimits target_limits_;
  SampleFormat format_;
};

}  // namespace halomesh
