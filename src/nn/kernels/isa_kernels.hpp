// SPDX-License-Identifier: Apache-2.0
// Kernels of our own for several instruction sets, one of which is chosen when the program runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/nn/kernels/convolution_block_options.hpp"
#include "src/nn/kernels/winograd_passes.hpp"
#include "src/nn/layer.hpp"

namespace halomesh {

/// The kernels that were compiled for one instruction set.
struct IsaKernels {
  /// "avx512-bf16", "avx512", "avx2", "sve" or "plain": the best of these that the code may use.
  const char* isa;
  bool is_baseline;  ///< compiled with the flags of the whole program
  std::unique_ptr<Layer> (*make_convolution_block)(const ConvolutionBlockOptions& options);
  std::unique_ptr<WinogradPasses> (*make_winograd_passes)(const WinogradPasses::Options& options,
                                                          const LayerContext& context);
  double (*run_multiply_adds)(std::int64_t rounds);  ///< see peak.hpp
};

/// All kernels that were built, best first; the last are those of the whole program.
std::span<const IsaKernels* const> built_isa_kernels();

/// Whether this CPU, and its operating system, can run them.
bool cpu_runs(const IsaKernels& kernels);

/// The first of built_isa_kernels() that the CPU runs, or those called `name` unless it is empty
/// ("baseline" stands for those of the whole program). Throws UsageError where these were not built
/// or do not run on this CPU.
const IsaKernels& choose_isa_kernels(const std::string& name);

/// The result of choose_isa_kernels() for the environment variable HALOMESH_ISA, chosen by the
/// first call.
const IsaKernels& isa_kernels();

}  // namespace halomesh
