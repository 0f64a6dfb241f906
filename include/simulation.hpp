// SPDX-License-Identifier: Apache-2.0
// The seam to a simulated machine (`make smpi`): all ranks are threads of one process, their time
// is that of the simulation, and what they hold and compute means nothing. In the real program kOn
// is false, so that nothing of this is compiled in; runtime/simulated defines it for the simulated
// one.
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
  double add_s_per_byte = 0;     ///< of received values, added to others
  double update_s_per_byte = 0;  ///< read or written by the optimizer
};
/// Of every rank: the ranks are one process. Zero until set.
void set_rates(const Rates& rates);

/// Nanoseconds since the start of the simulation.
std::int64_t now_ns();
/// Lets this rank compute for so long: its simulated time passes, messages go on.
void spend(double seconds);
/// What a message costs the CPU at one of its ends, where SMPI has not charged it: SMPI charges
/// plain sends that are not waited for, and the rest only of messages so small that they leave
/// without being waited for.
void message_end(std::int64_t bytes);
/// The work on so many bytes at the rates set.
void copied(std::int64_t bytes);
void added(std::int64_t bytes);
void updated(std::int64_t bytes);

/// Memory for `bytes` bytes that mean nothing: the same for all callers and ranks, neither zeroed
/// nor ever freed, so that thousands of ranks fit; messages between such memory are not copied.
/// Null for blocks so small that they may mean something, or larger than any that can be shared.
void* shared_memory(std::size_t bytes);
bool is_shared(const void* memory);

}  // namespace halomesh::simulation
