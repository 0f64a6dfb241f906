// SPDX-License-Identifier: Apache-2.0
// 1x1x1 convolutions as products: see pointwise_products.hpp.
#include "src/nn/kernels/pointwise_products.hpp"

#include <algorithm>

#include "src/nn/add.hpp"

namespace halomesh {

PointwiseProducts::PointwiseProducts(const ConvolutionGeometry& geometry, bool bias, bool training)
    : training_(training),
      in_(geometry.src.c),
      out_(geometry.dst.c),
      kernels_(geometry.dst.volume() / out_, in_, out_, bias, training) {}

std::optional<PointwiseProducts> PointwiseProducts::make_if_suits(
    const ConvolutionGeometry& geometry, DataType compute, bool bias, bool training) {
  constexpr Spatial kOnes{1, 1, 1};
  if (compute != DataType::kFloat32 || geometry.groups != 1 || geometry.kernel != kOnes ||
      geometry.src.spatial() != geometry.dst.spatial())
    return std::nullopt;
  PointwiseProducts made(geometry, bias, training);
  const std::vector<std::string> names = made.kernels_.implementations();
  const auto is_reference = [](const std::string& name) { return name.find("ref") != name.npos; };
  if (std::any_of(names.begin(), names.end(), is_reference)) return std::nullopt;
  return made;
}

std::optional<PointwiseProducts> PointwiseProducts::make_forward_if_pays(
    const ConvolutionGeometry& geometry, DataType compute, bool bias, std::int64_t voxels) {
  // Measured: a copied weight takes as long as some 30 multiply-adds, and the convolution is 2 to
  // 5 % faster than the product.
  constexpr std::int64_t kMostVoxels = 1024;
  if (voxels > kMostVoxels) return std::nullopt;
  return make_if_suits(geometry, compute, bias, false);
}

void PointwiseProducts::take(Scratch& scratch, std::int64_t samples) {
  if (samples > 1) terms_ = scratch.take<float>((in_ + 1) * out_);
}

void PointwiseProducts::forward(const float* src, const float* weight, const float* bias,
                                float* dst) {
  kernels_.forward(src, weight, bias, dst);
}

void PointwiseProducts::backward_data(const float* diff_dst, const float* weight, float* diff_src) {
  kernels_.backward_data(diff_dst, weight, diff_src);
}

void PointwiseProducts::backward_weights(const float* src, const float* diff_dst, bool first,
                                         float* diff_weight, float* diff_bias) {
  if (first) {
    kernels_.backward_weights(src, diff_dst, diff_weight, diff_bias);
    return;
  }
  float *const weight = terms_.data(), *const bias = weight + in_ * out_;
  kernels_.backward_weights(src, diff_dst, weight, diff_bias == nullptr ? nullptr : bias);
  add_values(diff_weight, weight, in_ * out_);
  if (diff_bias != nullptr) add_values(diff_bias, bias, out_);
}

std::vector<std::string> PointwiseProducts::implementations() const {
  std::vector<std::string> names;
  for (const std::string& name : kernels_.implementations()) {
    const std::size_t space = name.find(' ');
    if (name.starts_with("backward") == training_)
      names.push_back(name.substr(0, space) + " fp32 product" + name.substr(space));
  }
  return names;
}

}  // namespace halomesh
