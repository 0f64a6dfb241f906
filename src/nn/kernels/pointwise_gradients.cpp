// SPDX-License-Identifier: Apache-2.0
// 1x1x1 convolutions as products: see pointwise_gradients.hpp.
#include "src/nn/kernels/pointwise_gradients.hpp"

#include <algorithm>

#include "src/nn/add.hpp"

namespace halomesh {

PointwiseGradients::PointwiseGradients(const ConvolutionGeometry& geometry, bool bias)
    : in_(geometry.src.c),
      out_(geometry.dst.c),
      kernels_(geometry.dst.volume() / out_, in_, out_, bias, true) {}

std::optional<PointwiseGradients> PointwiseGradients::make_if_suits(
    const ConvolutionGeometry& geometry, DataType compute, bool bias) {
  constexpr Spatial kOnes{1, 1, 1};
  if (compute != DataType::kFloat32 || geometry.groups != 1 || geometry.kernel != kOnes ||
      geometry.src.spatial() != geometry.dst.spatial())
    return std::nullopt;
  PointwiseGradients made(geometry, bias);
  const std::vector<std::string> names = made.kernels_.implementations();
  const auto is_reference = [](const std::string& name) { return name.find("ref") != name.npos; };
  if (std::any_of(names.begin(), names.end(), is_reference)) return std::nullopt;
  return made;
}

void PointwiseGradients::take(Scratch& scratch, std::int64_t samples) {
  if (samples > 1) terms_ = scratch.take<float>((in_ + 1) * out_);
}

void PointwiseGradients::backward_data(const float* diff_dst, const float* weight,
                                       float* diff_src) {
  kernels_.backward_data(diff_dst, weight, diff_src);
}

void PointwiseGradients::backward_weights(const float* src, const float* diff_dst, bool first,
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

std::vector<std::string> PointwiseGradients::implementations() const {
  std::vector<std::string> names;
  for (const std::string& name : kernels_.implementations()) {
    const std::size_t space = name.find(' ');
    if (name.starts_with("backward"))
      names.push_back(name.substr(0, space) + " fp32 product" + name.substr(space));
  }
  return names;
}

}  // namespace halomesh
