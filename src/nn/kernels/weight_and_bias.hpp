// SPDX-License-Identifier: Apache-2.0
// The scale and shift of channels, of which a layer may train both, one or none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/nn/layer.hpp"

namespace halomesh {

/// The shape of a parameter that has one value for each channel.
inline constexpr Shape kOnePerChannel{1, 1, 1, 1};

/// The geometry of a weight and a bias for each of `channels` channels, or of one, or of none.
/// Weights begin with 1, biases with 0.
inline std::vector<ParameterGeometry> weight_and_bias(bool weight, bool bias,
                                                      std::int64_t channels) {
  constexpr InitialValues kOnes{InitialValues::Kind::kConstant, 1.0F};
  std::vector<ParameterGeometry> parameters;
  if (weight) parameters.push_back({"weight", channels, kOnePerChannel, false, 0, 0, kOnes});
  if (bias) parameters.push_back({"bias", channels, kOnePerChannel, false, 0, 0});
  return parameters;
}

/// Puts views of ones and zeros, whose gradients nobody reads, in the places of a weight and a bias
/// that are not among the `trained` parameters. `fixed` is their memory.
inline std::vector<ParameterView> with_fixed(std::vector<ParameterView> trained, bool weight,
                                             bool bias, std::int64_t channels,
                                             AlignedBuffer<float>& fixed) {
  if (weight && bias) return trained;
  fixed = AlignedBuffer<float>(3 * channels);
  const auto size = static_cast<std::size_t>(channels);
  const auto ones = fixed.span().first(size), zeros = fixed.span().subspan(size, size),
             diffs = fixed.span().last(size);
  std::fill(ones.begin(), ones.end(), 1.0F);
  if (!weight) trained.insert(trained.begin(), ParameterView{{}, {}, ones, diffs});
  if (!bias) trained.insert(trained.begin() + 1, ParameterView{{}, {}, zeros, diffs});
  return trained;
}

}  // namespace halomesh
