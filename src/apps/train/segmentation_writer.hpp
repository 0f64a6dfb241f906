// SPDX-License-Identifier: Apache-2.0
// Writes predicted classes of voxels, in one of a list of formats that register themselves.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registered.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/mpi/mpi.hpp"
#include "runtime/posix/shared_file.hpp"
#include "src/nn/tensor.hpp"

namespace halomesh {

/// Writes the predictions of a data set. Every rank writes its own blocks, so that none needs more
/// memory than for a plane of its block, and nothing is sent. Equal predictions give equal bytes on
/// any mesh.
class SegmentationWriter {
 public:
  SegmentationWriter() = default;
  SegmentationWriter(const SegmentationWriter&) = delete;
  SegmentationWriter& operator=(const SegmentationWriter&) = delete;
  virtual ~SegmentationWriter() = default;

  /// Writes a block of outputs of some samples, with all classes. Local.
  virtual void write(std::span<const std::int64_t> samples, ConstView output) = 0;
  /// Flushes all files to disk and gives them their names. Collective.
  virtual void commit() = 0;
};

/// The content to write for a data set.
struct SegmentationContent {
  const Dataset& data;
  std::vector<std::string> classes;  ///< names, in the order of the outputs' channels
  bool with_probabilities = false;   ///< adds the softmax of the outputs
};

/// A format; a program may be built without some.
struct SegmentationFormat {
  std::string_view name;
  std::string_view files;  ///< the kind of --out in messages: "an .h5 file"
  bool (*takes)(const std::filesystem::path& out);
  /// Creates the files under temporary names. Throws one Error on every rank. Collective over
  /// `world`, which must outlive the writer, as must the data.
  std::unique_ptr<SegmentationWriter> (*create)(const Comm& world, const std::filesystem::path& out,
                                                const SegmentationContent& content);
};

/// The coordinates of a voxel, as those of a Box.
using VoxelPoint = std::array<std::int64_t, 4>;

/// A dense array of voxels in a file.
struct VoxelRoom {
  std::int64_t begin = 0;                    ///< bytes from the beginning of the file
  Spatial extents{};                         ///< along d, h and w
  std::array<Axis, 3> order = {kD, kH, kW};  ///< the last varies fastest

  /// The index of a voxel.
  std::int64_t index(const VoxelPoint& at) const {
    std::int64_t index = 0;
    for (const Axis axis : order) index = index * extents[axis - kD] + at[axis];
    return index;
  }
};

/// Writes `width` elements for each voxel of a block, a plane at a time; convert(at, to) makes
/// those of the voxel at the point `at`.
template <class T, class Convert>
void write_voxels(SharedFile& file, const VoxelRoom& room, std::int64_t width, const Box& box,
                  const Convert& convert) {
  const auto [outer, middle, inner] = room.order;
  const std::int64_t row = box.extent(inner) * width;
  std::vector<T> plane(static_cast<std::size_t>(box.extent(middle) * row));
  const auto bytes = std::as_bytes(std::span(plane));
  // Rows that are whole in the file follow one another there.
  const std::int64_t rows = box.extent(inner) == room.extents[inner - kD] ? box.extent(middle) : 1;
  const std::size_t piece = static_cast<std::size_t>(rows * row) * sizeof(T);
  VoxelPoint at = box.lo;
  for (at[outer] = box.lo[outer]; at[outer] < box.hi[outer]; ++at[outer]) {
    T* to = plane.data();
    for (at[middle] = box.lo[middle]; at[middle] < box.hi[middle]; ++at[middle])
      for (at[inner] = box.lo[inner]; at[inner] < box.hi[inner]; ++at[inner], to += width)
        convert(at, to);
    at[inner] = box.lo[inner];
    for (std::size_t written = 0; written < bytes.size(); written += piece) {
      at[middle] = box.lo[middle] + static_cast<std::int64_t>(written / piece) * rows;
      file.write(room.begin + room.index(at) * width * static_cast<std::int64_t>(sizeof(T)),
                 bytes.subspan(written, piece));
    }
  }
}

/// The class with the largest of `classes` outputs; on a tie, the first.
std::uint8_t largest_class(const float* outputs, std::int64_t classes);
/// Writes the probability of each class: the softmax of the outputs.
void probabilities_of(const float* outputs, std::int64_t classes, float* to);

}  // namespace halomesh
