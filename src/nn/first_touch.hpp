// SPDX-License-Identifier: Apache-2.0
// Clears fresh memory so that its pages lie near the threads that will compute on it.
#pragma once

#include <cstddef>

namespace halomesh {

/// Writes zeros to `bytes` bytes at `memory`. OpenMP thread t clears the t-th of equal shares,
/// matching how loops with a static schedule divide a tensor's planes: the system puts a page on
/// the NUMA domain of the thread that first writes it. Small blocks are cleared only by the calling
/// thread.
void clear_by_threads(void* memory, std::size_t bytes);

}  // namespace halomesh
