// SPDX-License-Identifier: Apache-2.0
// Entry points of one instruction set: see isa_table.hpp.
#include "src/nn/kernels/isa_table.hpp"

#include <string_view>

#include "src/nn/kernels/convolution_block.hpp"
#include "src/nn/kernels/peak_loops.hpp"
#include "src/nn/kernels/winograd_layer_passes.hpp"

#define HALOMESH_TEXT_OF(name) #name
#define HALOMESH_NAME_OF(name) HALOMESH_TEXT_OF(name)

namespace halomesh {
inline namespace HALOMESH_ISA {
namespace {

constexpr std::string_view kNamespace = HALOMESH_NAME_OF(HALOMESH_ISA);

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
constexpr const char* kIsa = "avx512-bf16";
#elif defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
constexpr const char* kIsa = "avx512";
#elif defined(__AVX2__) && defined(__FMA__)
constexpr const char* kIsa = "avx2";
#elif defined(__ARM_FEATURE_SVE)
constexpr const char* kIsa = "sve";
#else
constexpr const char* kIsa = "plain";
#endif

std::unique_ptr<Layer> make_convolution_block(const ConvolutionBlockOptions& options) {
  return std::make_unique<ConvolutionBlock>(options);
}

}  // namespace

// Constant from the start of the program, since no code here may run before the CPU was examined.
constinit const IsaKernels kIsaKernels = {kIsa, kNamespace == "isa_baseline",
                                          make_convolution_block, make_winograd_passes,
                                          run_multiply_adds_here};

}  // namespace HALOMESH_ISA
}  // namespace halomesh
