// SPDX-License-Identifier: Apache-2.0
// Predicted classes of voxels in one HDF5 file, to which each rank writes its own blocks.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/posix/shared_file.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// The file holds, with n samples in the order of the data set:
///
///   /predicted      uint8, n x D x H x W          the class with the largest output
///   /probabilities  float32, n x D x H x W x C    softmax of the outputs; if wanted
///   attributes of /predicted: classes, names separated by commas; samples, one name a line
///
/// Datasets are contiguous: rank 0 makes room for them with the HDF5 library and closes the file;
/// then every rank writes the bytes of its blocks. So no rank needs more memory than for a plane of
/// its block, and nothing is sent. The same predictions give the same bytes on any mesh.
class SegmentationFile {
 public:
  /// Creates the file under a temporary name. Collective over `world`, which must outlive it.
  SegmentationFile(const Comm& world, const std::filesystem::path& path, const Dataset& data,
                   const std::vector<std::string>& classes, bool with_probabilities);
  SegmentationFile(const SegmentationFile&) = delete;
  SegmentationFile& operator=(const SegmentationFile&) = delete;
  ~SegmentationFile();

  /// Writes a block of outputs of some samples, with all classes. Local.
  void write(std::span<const std::int64_t> samples, ConstView output);
  /// Puts the file on disk and gives it its name. Collective.
  void commit();

 private:
  template <class T, class Convert>
  void write_planes(std::int64_t room, std::int64_t sample, std::int64_t width, const Box& box,
                    const Convert& convert);

  const Comm& world_;
  Shape shape_;                       // of a sample, with a channel for each class
  std::optional<AtomicFile> target_;  // on rank 0
  std::optional<SharedFile> file_;
  std::int64_t predicted_ = 0, probabilities_ = -1;  // bytes from the beginning; -1: not wanted
};

}  // namespace halomesh
