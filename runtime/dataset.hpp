// The samples of one split, whatever files they lie in: how many, of which shape, and their
// reading. Knows nothing of the order in which samples are used, of threads or of the network.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partition/tiles.hpp"
#include "runtime/mpi.hpp"
#include "runtime/voxel_sink.hpp"
#include "shape.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Reads blocks of samples for one thread, wherever they are stored; no call is collective.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  /// Writes the block dst.span (global coordinates) of sample number `sample`: its counts where dst
  /// is of int16, their log(1+x) where it is of fp32; and the sample's targets to `targets`. Either
  /// may be empty when it is not wanted. Throws Error naming file, record, value and cure.
  virtual void read(std::int64_t sample, AnyView dst, std::span<float> targets) = 0;
  /// Takes counts of a box, dense, valid during the call.
  using LayerSink = std::function<void(TensorView<const std::int16_t> layer)>;
  /// Hands on the counts of the box `box` of a sample layer by layer, in the order and of the form
  /// of layers_of(); a layer is one of layers(box), or what the file has in one piece. Otherwise as
  /// read(). Here: by read(), for readers to whom a part of a box costs a part of the time.
  virtual void read_layers(std::int64_t sample, const Box& box, const LayerSink& sink,
                           std::span<float> targets);
  /// Layers of an eighth of a box, and of 512 KiB at most.
  static std::vector<Box> layers(const Box& box) {
    return layers_of(box, std::min<std::int64_t>(256 * 1024, box.volume() / 8));
  }

  /// Hands on the voxels of a whole sample piece by piece while they are read, and writes its
  /// targets to `targets`. Throws as read() does, perhaps after pieces have been handed on; and
  /// where there is nothing to be read from.
  virtual void stream(std::int64_t sample, const VoxelSink& sink, std::span<float> targets);
  /// Says that `sample` will be read next: what can be fetched from the disk meanwhile may be.
  virtual void expect(std::int64_t /*sample*/) {}
};

/// The samples of one split, identical on every rank; immutable.
class Dataset {
 public:
  /// Collective over `comm`. Opens the split that `directory` holds in one of these formats (hidden
  /// files aside); `shape` and `targets` are those of every sample:
  ///   directory/SPLIT-NNNNN.h5      an archive
  ///   directory/SPLIT/*.tfrecord*   TFRecord, plain or gzip, one record a file or many
  ///   directory/SPLIT/*.h5, *.hdf5  HDF5 with one sample (x, y) or one universe (full, unitPar)
  /// Files are in the order of their names, and sample numbers follow them. Throws the same Error
  /// on every rank when there is no such file, files are of two
  /// formats, or one is damaged or of another sample size.
  static std::unique_ptr<const Dataset> open(const Comm& comm,
                                             const std::filesystem::path& directory,
                                             const std::string& split, const Shape& shape,
                                             std::int64_t targets);
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  const Shape& shape() const { return shape_; }
  std::int64_t targets() const { return targets_; }
  /// Where the files are.
  virtual const std::filesystem::path& directory() const = 0;
  /// A text that is another one when a file's name, size or time of change is, or the directory;
  /// the same on every rank.
  virtual const std::string& identity() const = 0;
  /// What users should be told about the files, such as that reading them is slow; "" for nothing.
  virtual std::string advice() const { return {}; }

  /// A reader that holds a small piece of one sample at a time. The data set must outlive it.
  virtual std::unique_ptr<SampleReader> reader() const = 0;

 protected:
  Dataset(const Shape& shape, std::int64_t targets) : shape_(shape), targets_(targets) {}

 private:
  Shape shape_;
  std::int64_t targets_;
};

}  // namespace halomesh
