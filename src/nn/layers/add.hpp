// SPDX-License-Identifier: Apache-2.0
// Sum of several inputs of one shape: what joins the branches of a network.
// Pointwise: needs no halo.
#pragma once

#include <string>

#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// out = x0 + x1 + ..., added in the order of the inputs. The gradient of each input equals that of
/// the output.
class Add final : public Pointwise {
 public:
  /// The common shape; throws Error for fewer than two inputs or for shapes that differ.
  Shape dst_shape(std::span<const Shape> src) const override;

  std::string kernel_name() const override { return "add fp32"; }
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;
};

}  // namespace halomesh
