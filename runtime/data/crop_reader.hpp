// SPDX-License-Identifier: Apache-2.0
// Blocks of crops of samples.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "shape.hpp"

namespace halomesh {

/// Reads blocks of crops: position (d,h,w) of a crop is (d,h,w) + origin in the sample. Crops may
/// extend beyond the sample, where fp32 values are `padding` and labels kOutsideLabel. Only the
/// part of a block that lies in the sample is read.
class CropReader {
 public:
  /// A crop of sample number `sample`, which has the extents of `shape`.
  struct Crop {
    std::int64_t sample = 0;
    Shape shape;
    Spatial origin{};
  };

  CropReader(std::unique_ptr<SampleReader> reader, float padding)
      : reader_(std::move(reader)), padding_(padding) {}

  DataType type() const { return reader_->type(); }
  SampleReader& reader() { return *reader_; }

  /// Reads as SampleReader::read(). Throws Error if a block of int16 counts extends beyond the
  /// sample.
  void read(const Crop& crop, AnyView dst, AnyView targets);
  /// Reads as SampleReader::read_slabs(), without the part beyond the sample.
  void read_slabs(const Crop& crop, const Box& box, const SampleReader::SlabSink& sink,
                  AnyView targets);
  /// True if the whole box lies within the sample.
  static bool is_inside(const Crop& crop, const Box& box);
  /// Fills a block with the value of voxels beyond the sample.
  void pad(AnyView block) const;

 private:
  /// The part of a block that lies in the sample, dense, in coordinates of the sample.
  struct Source {
    Box box;
    AnyView view;
    bool is_whole = false;  ///< the view is the block itself
  };
  static Source source_of(const Crop& crop, const AnyView& block, std::vector<std::byte>& memory);
  void place(const Source& source, const Crop& crop, const AnyView& block) const;

  std::unique_ptr<SampleReader> reader_;
  float padding_;
  std::vector<std::byte> values_, labels_;  // for blocks that extend beyond a sample
};

}  // namespace halomesh
