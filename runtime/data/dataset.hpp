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

/// Reads blocks of samples, for one thread; no call is collective.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// Writes the block dst.span (global coordinates) of sample number `sample`: counts if dst is
  /// int16, their log(1+x) if it is fp32; and the sample's targets to `targets`. Either may be
  /// empty. Throws Error naming the file, the record and the value.
  virtual void read(std::int64_t sample, AnyView dst, std::span<float> targets) = 0;
  /// Takes the counts of a slab: dense, valid during the call.
  using SlabSink = std::function<void(TensorView<const std::int16_t> slab)>;
  /// Passes the counts of `box` to the sink slab by slab, in the order and of the form of
  /// slabs_of(); a slab is one of slabs(box), or what the file stores in one piece. Otherwise as
  /// read(), which this default calls for each slab: override it where reading part of a box costs
  /// more than its share of the time.
  virtual void read_slabs(std::int64_t sample, const Box& box, const SlabSink& sink,
                          std::span<float> targets);
  /// Slabs of an eighth of the box, and of at most 512 KiB.
  static std::vector<Box> slabs(const Box& box) {
    return slabs_of(box, std::min<std::int64_t>(256 * 1024, box.volume() / 8));
  }

  /// Passes the voxels of a whole sample to `sink` piece by piece as they are read; writes its
  /// targets to `targets`. Throws as read() does, possibly after pieces have been passed on, and if
  /// samples are not stored in files.
  virtual void stream(std::int64_t sample, const VoxelSink& sink, std::span<float> targets);
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
  std::int64_t targets() const { return targets_; }
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
  Dataset(const Shape& shape, std::int64_t targets) : shape_(shape), targets_(targets) {}

 private:
  Shape shape_;
  std::int64_t targets_;
};

}  // namespace halomesh
