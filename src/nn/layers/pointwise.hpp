// SPDX-License-Identifier: Apache-2.0
// The geometry shared by layers that map each element separately: output box = needed input box.
#pragma once

#include <utility>
#include <vector>

#include "error.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// A layer without parameters whose output element depends only on the input element at the same
/// position. One input unless the derived layer says otherwise.
class Pointwise : public Layer {
 public:
  /// The shape of the input; throws Error unless there is exactly one.
  Shape dst_shape(std::span<const Shape> src) const override {
    require(src.size() == 1, text("a pointwise layer of one input was given {}", src.size()),
            "name one input for it");
    return src[0];
  }
  Box needs(const Box& dst, std::size_t, std::span<const Shape>) const override { return dst; }
  bool splits_over_channels() const override { return true; }
  void prepare(const LayerContext& context, std::vector<ParameterView>) override {
    context_ = context;
  }

 protected:
  const LayerContext& context() const { return context_; }

 private:
  LayerContext context_;
};

}  // namespace halomesh
