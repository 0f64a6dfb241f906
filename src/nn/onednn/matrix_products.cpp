// SPDX-License-Identifier: Apache-2.0
// Products of bf16 matrices: see matrix_products.hpp.
#include "src/nn/onednn/matrix_products.hpp"

#include <algorithm>

#include "src/nn/onednn/call.hpp"

namespace halomesh {
namespace {

using namespace onednn;

// One thread's product of matrices that fit a second-level cache; the library packs the right one.
class SquareProduct {
 public:
  static constexpr std::int64_t kSide = 512;
  SquareProduct() {
    call_.bind(DNNL_ARG_SRC, left_.data()).bind(DNNL_ARG_WEIGHTS, right_.data());
    call_.bind(DNNL_ARG_DST, result_.data()).bind_scratchpad(scratchpad_.data());
  }
  void run() const { call_.run(lib_); }

 private:
  static memory::desc desc(Tag tag, DataType type) { return plain({kSide, kSide}, tag, type); }

  Library lib_;
  dnnl::matmul::primitive_desc pd_ = describe<dnnl::matmul>(
      lib_, desc(Tag::ab, DataType::kBfloat16), desc(Tag::any, DataType::kBfloat16),
      desc(Tag::ab, DataType::kFloat32));
  Call call_{lib_,
             "product of bf16 matrices",
             make_primitive<dnnl::matmul>(pd_),
             pd_,
             {{DNNL_ARG_SRC, pd_.src_desc()},
              {DNNL_ARG_WEIGHTS, pd_.weights_desc()},
              {DNNL_ARG_DST, pd_.dst_desc()}}};
  AlignedBuffer<Bfloat16> left_{kSide * kSide};
  AlignedBuffer<std::byte> right_{static_cast<std::int64_t>(pd_.weights_desc().get_size())};
  AlignedBuffer<float> result_{kSide * kSide};
  AlignedBuffer<std::byte> scratchpad_{call_.scratchpad_bytes()};
};

}  // namespace

double run_bfloat16_products(std::int64_t rounds) {
  constexpr std::int64_t kRoundsOfProduct = 1 << 10;
  constexpr auto kSide = static_cast<double>(SquareProduct::kSide);
  thread_local SquareProduct product;
  const std::int64_t products = std::max<std::int64_t>(1, rounds / kRoundsOfProduct);
  for (std::int64_t i = 0; i < products; ++i) product.run();
  return 2 * kSide * kSide * kSide * static_cast<double>(products);
}

}  // namespace halomesh
