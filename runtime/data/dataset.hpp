// SPDX-License-Identifier: Apache-2.0
// The samples of one split: their number, shape and readers, for any file format.
// Must not depend on the formats (see open_dataset.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partition/samples/tiles.hpp"
#include "runtime/data/voxel_sink.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// A sample's scalar targets as a tensor of shape {values.size(), 1, 1, 1}.
inline View scalars(std::span<float> values) {
  return {values.data(), Box::whole({std::ssize(values), 1, 1, 1}), 1};
}
/// Writes those of the values of all channels that `targets`, of scalars, spans.
void copy_scalars(std::span<const float> all, AnyView targets);

/// Reads blocks of samples, for one thread; no call is collective.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// Writes the block dst.span (global coordinates) of sample number `sample`: counts if dst is
  /// int16, their log(1+x) if it is fp32; and the block targets.span of its targets, of the type
  /// that the data set has. Either may be empty. Throws Error naming the file, the record and the
  /// value.
  virtual void read(std::int64_t sample, AnyView dst, AnyView targets) = 0;
  /// Takes the counts of a slab: dense, valid during the call.
  using SlabSink = std::function<void(TensorView<const std::int16_t> slab)>;
  /// Passes the counts of `box` to the sink slab by slab, in the order and of the form of
  /// slabs_of(); a slab is one of slabs(box), or what the file stores in one piece. Otherwise as
  /// read(), which this default calls for each slab: override it where reading part of a box costs
  /// more than its share of the time.
  virtual void read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                          AnyView targets);
  /// Slabs of an eighth of the box, and of at most 512 KiB.
  static std::vector<Box> slabs(const Box& box) {
    return slabs_of(box, std::min<std::int64_t>(256 * 1024, box.volume() / 8));
  }

  /// Passes the voxels of a whole sample to `sink` piece by piece as they are read; writes the
  /// block targets.span of its targets. Throws as read() does, possibly after pieces have been
  /// passed on, and if samples are not stored in files.
  virtual void stream(std::int64_t sample, const VoxelSink& sink, AnyView targets);
  /// Announces that `sample` is read next, so that the reader may prefetch it.
  virtual void expect(std::int64_t /*sample*/) {}
};

/// The samples of one split, identical on every rank; immutable.
class Dataset {
 public:
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  const Shape& shape() const { return shape_; }
  /// The shape and type of a sample's targets: {T, 1, 1, 1} for T scalars, which are fp32.
  const Shape& target_shape() const { return target_shape_; }
  DataType target_type() const { return target_type_; }
  /// Values per voxel of the targets: of scalars, all.
  std::int64_t targets() const { return target_shape_.c; }
  /// The directory of the files.
  virtual const std::filesystem::path& directory() const = 0;
  /// Identifies the data: changes whenever the directory or a file's name, size or modification
  /// time does; the same on every rank.
  virtual const std::string& identity() const = 0;
  /// A note for users, e.g. that reading the files is slow; "" for none.
  virtual std::string advice() const { return {}; }

  /// Creates a reader, which buffers a small part of one sample. The data set must outlive it.
  virtual std::unique_ptr<SampleReader> reader() const = 0;

 protected:
  Dataset(const Shape& shape, std::int64_t targets)
      : Dataset(shape, {targets, 1, 1, 1}, DataType::kFloat32) {}
  Dataset(const Shape& shape, const Shape& target_shape, DataType target_type)
      : shape_(shape), target_shape_(target_shape), target_type_(target_type) {}

 private:
  Shape shape_, target_shape_;
  DataType target_type_;
};

}  // namespace halomesh
