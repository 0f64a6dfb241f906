// SPDX-License-Identifier: Apache-2.0
// The common part of layers that are a matrix along each axis of space: averages of windows,
// interpolations, paddings. Must not depend on exchanges.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/layer.hpp"

namespace halomesh {

/// dst(n,c,d,h,w) = sum over i,j,k of A(d,i) B(h,j) C(w,k) src(n,c,i,j,k) with matrices of few
/// elements in a row, by which derived layers differ; where a row has none, dst is a constant. The
/// gradient is the sum over the same matrices transposed: each element of it adds up its terms in
/// one order, so that results do not depend on the number of threads. Sums are in fp32.
class Separable : public Layer {
 public:
  /// Has the channels of the input.
  Shape dst_shape(std::span<const Shape> src) const final;
  Box needs(const Box& dst, std::size_t input, std::span<const Shape> src) const final;
  bool splits_over_channels() const final { return true; }
  DataType dst_type(std::span<const DataType> src) const final;
  std::int64_t forward_flops(std::span<const Shape> src) const final;
  void prepare(const LayerContext& context, std::vector<ParameterView> parameters) final;
  void forward(const Pass& pass, std::span<const AnyConstView> src, AnyView dst,
               const Box& chunk) final;
  bool repeats_forward() const final { return true; }
  void backward_data(const Pass& pass, const ForwardValues& values, AnyConstView diff_dst,
                     std::size_t input, AnyView diff_src) final;

 protected:
  /// An element of a row: the plane of src that it multiplies.
  struct Term {
    std::int64_t plane;
    double weight;
  };
  /// `name` is that of the layer in messages; `outside` is the constant of empty rows.
  explicit Separable(const char* name, DataType type, float outside = 0)
      : name_(name), type_(type), outside_(outside) {}

  /// The extents of dst; throws Error where src does not fit.
  virtual Spatial extents_of(const Spatial& src) const = 0;
  /// Appends the row of plane `dst` along `axis`, 0 to 2. All planes are inside src.
  virtual void append_row(const Spatial& src, std::size_t axis, std::int64_t dst,
                          std::vector<Term>& row) const = 0;
  DataType type() const { return type_; }

 private:
  /// The rows of consecutive planes, of which the first is `lo`.
  struct Rows {
    std::int64_t lo = 0;
    std::vector<std::size_t> first{0};
    std::vector<Term> terms{};
    std::span<const Term> of(std::int64_t plane) const {
      const auto i = static_cast<std::size_t>(plane - lo);
      return std::span(terms).subspan(first[i], first[i + 1] - first[i]);
    }
  };
  using Matrix = std::array<Rows, 3>;
  template <class T>
  void multiply(const Pass& pass, const Matrix& matrix, TensorView<const T> from, TensorView<T> to,
                const Box& box, float outside) const;

  const char* name_;
  DataType type_;
  float outside_;
  LayerContext context_;
  Matrix forward_, backward_;  // rows by plane of dst_produced, and by plane of src_needed
};

}  // namespace halomesh
