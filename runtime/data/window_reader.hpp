// SPDX-License-Identifier: Apache-2.0
// Windows of samples as if they were samples themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "shape.hpp"

namespace halomesh {

/// Sample number s * origins + k is window k of sample s: place (d,h,w) of the window is place
/// (d,h,w) + origins[k] of the sample. Windows may reach beyond the sample, where fp32 values are
/// `padding` and labels 0.
class WindowReader final : public SampleReader {
 public:
  /// `shape`: of the samples that `reader` reads.
  WindowReader(std::unique_ptr<SampleReader> reader, const Shape& shape,
               std::vector<Spatial> origins, float padding);

  DataType type() const override { return reader_->type(); }
  /// Throws Error where a window of counts that is read as int16 reaches beyond the sample.
  void read(std::int64_t sample, AnyView dst, AnyView targets) override;

 private:
  /// The part of a window's block that the sample has, dense, in coordinates of the sample.
  struct Source {
    Box box;
    AnyView view;
    bool is_whole = false;  ///< the view is that of the block itself
  };
  Source source_of(const AnyView& block, const Spatial& origin, const Shape& shape,
                   std::vector<std::byte>& memory) const;
  static void place(const Source& source, const Spatial& origin, const AnyView& block);

  std::unique_ptr<SampleReader> reader_;
  Shape shape_;
  std::vector<Spatial> origins_;
  float padding_;
  std::vector<std::byte> values_, labels_;  // of blocks that reach beyond a sample
};

}  // namespace halomesh
