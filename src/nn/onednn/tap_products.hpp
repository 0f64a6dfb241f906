// SPDX-License-Identifier: Apache-2.0
// A convolution as one product of matrices for each tap of its kernel, over the voxels whose src is
// not padding. Private to src/nn/onednn/onednn* and its test: no other file includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/nn/convolution_taps.hpp"
#include "src/nn/onednn/call.hpp"

namespace halomesh::onednn {

// Products in fp32 for dense ndhwc blocks of one sample, without groups.
class TapProducts {
 public:
  enum class Role { kForward, kBackwardData };

  // Whether the products cost less than the library's kernel of this role, which multiplies all
  // taps with all voxels.
  static bool pay(const ConvolutionGeometry& geometry, Role role);

  // Adds the names of the library's kernels to `names`.
  TapProducts(const ConvolutionGeometry& geometry, Role role, std::vector<std::string>& names);

  // Marks the taps that run() reads.
  void mark_taps(std::vector<bool>& used) const;
  std::int64_t scratch_bytes() const;
  // Writes the convolution of `from` plus `bias` to `to` or, for kBackwardData, whose bias is null,
  // the gradient of src. The order of weights is tap,out,in.
  void run(const float* from, const float* weights, const float* bias, float* to,
           std::byte* scratch);

 private:
  struct Tap : ConvolutionTap {
    Call product;
  };
  std::int64_t voxels(const ConvolutionTap& tap) const {
    return tap.dst.volume() / geometry_.dst.c;
  }
  bool is_whole(const ConvolutionTap& tap) const;
  Call make_product(const ConvolutionTap& tap, std::vector<std::string>& names) const;
  const float* dense_from(const ConvolutionTap& tap, const float* from, float* scratch) const;
  void add(const ConvolutionTap& tap, const float* result, float* to) const;

  ConvolutionGeometry geometry_;
  Role role_;
  Library lib_;
  std::vector<Tap> taps_;
  std::int64_t from_floats_ = 0, result_floats_ = 0;  // read and written for one tap
};

// Brings the `used` taps of weights out,in,taps into the order tap,out,in.
void pack_by_taps(const float* weight, std::int64_t pairs, const std::vector<bool>& used,
                  float* to);

}  // namespace halomesh::onednn
