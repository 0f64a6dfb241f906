// SPDX-License-Identifier: Apache-2.0
// The implementation of WinogradPasses for one instruction set.
#pragma once

#include <memory>

#include "src/nn/kernels/isa.hpp"
#include "src/nn/kernels/winograd_passes.hpp"

namespace halomesh {
inline namespace HALOMESH_VECTORS {

std::unique_ptr<WinogradPasses> make_winograd_passes(const WinogradPasses::Options& options,
                                                     const LayerContext& context);

}  // namespace HALOMESH_VECTORS
}  // namespace halomesh
