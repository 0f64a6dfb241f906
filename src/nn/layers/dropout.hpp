// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask is a function of global positions: equal on every mesh, never stored.
// Pointwise: needs no halo.
#pragma once

#include <string>

#include "src/nn/layers/pointwise.hpp"

namespace halomesh {

/// In training out = x / (1 - p) with probability 1 - p, else 0, independently for each element, or
/// for each channel of a sample as a whole (Tompson, Goroshin, Jain, LeCun & Bregler,
/// arXiv:1411.4280; PyTorch's Dropout3d); otherwise the identity. The mask depends only on (seed,
/// step, position of the layer in its network, position of the sample in the global batch, global
/// element); backward draws it again. The scale 1 / (1 - p) in training ("inverted dropout") is
/// that of Keras' Dropout layer.
class Dropout final : public Pointwise {
 public:
  /// Throws Error unless 0 <= p < 1.
  explicit Dropout(double p, DataType type = DataType::kFloat32, bool whole_channels = false);

  double probability() const { return p_; }
  bool drops_channels() const { return whole_channels_; }
  DataType dst_type(std::span<const DataType> src) const override;
  std::string kernel_name() const override;
  bool sums_exactly() const override { return true; }
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) override;
  bool repeats_forward() const override { return true; }
  bool backward_in_place(std::size_t) const override { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) override;

 private:
  template <class T>
  void apply(const Pass& pass, TensorView<const T> from, TensorView<T> to, const Box& box) const;

  double p_;
  DataType type_;
  bool whole_channels_;
};

}  // namespace halomesh
