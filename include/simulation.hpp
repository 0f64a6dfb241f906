// SPDX-License-Identifier: Apache-2.0
// The seam to a simulated machine (`make smpi`): all ranks are threads of one process, their time
// is that of the simulation, and the values that they hold and compute mean nothing. In the real
// program kOn is false and nothing of this is compiled; runtime/simulated defines it for the
// simulated one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy_cost.hpp"

namespace halomesh::simulation {

#ifdef HALOMESH_SIMULATED
inline constexpr bool kOn = true;
#else
inline constexpr bool kOn = false;
#endif

/// Seconds that a rank needs for the bytes that it handles outside of layers.
struct Rates {
  CopyCost copy;                 ///< packed or unpacked
  double add_s_per_byte = 0;     ///< adding received values to others
  double update_s_per_byte = 0;  ///< reading and writing by the optimizer
};
/// Sets the rates of every rank, as the ranks are one process. They are zero until set.
void set_rates(const Rates& rates);

/// Nanoseconds since the start of the simulation.
std::int64_t now_ns();
/// Lets this rank compute for so long: its simulated time passes while messages proceed.
void spend(double seconds);
/// Charges the CPU time of a message at one of its ends where SMPI has not. SMPI charges plain
/// sends that are not waited for, and otherwise only messages so small that they leave without
/// being waited for.
void message_end(std::int64_t bytes);
/// Charges the work on so many bytes at the rates set.
void copied(std::int64_t bytes);
void added(std::int64_t bytes);
void updated(std::int64_t bytes);

/// Memory for `bytes` bytes without meaning: all callers and ranks get one block, neither zeroed
/// nor ever freed, so that thousands of ranks fit; messages between such memory are not copied.
/// Null for blocks so small that they may have a meaning, or too large to share.
void* shared_memory(std::size_t bytes);
bool is_shared(const void* memory);

}  // namespace halomesh::simulation
