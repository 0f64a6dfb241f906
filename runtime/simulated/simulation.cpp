// SPDX-License-Identifier: Apache-2.0
// The seam to a machine simulated by SimGrid's SMPI: see simulation.hpp. Compiled only for it.
#include "simulation.hpp"

#include <mpi.h>
#include <xbt/config.h>

#include <simgrid/s4u/Actor.hpp>
#include <string>
#include <xbt/config.hpp>

namespace halomesh::simulation {
namespace {

constexpr std::size_t kSmall = 4 << 10, kArena = std::size_t{1} << 30;

// These belong to the process, that is, to all ranks. Ranks switch only inside calls of MPI.
Rates rates;
std::byte* arena = nullptr;

// The costs that SMPI charges at the ends of messages, as set by the launcher.
struct Ends {
  // The setting has the form "0:SECONDS:0", for messages of any size.
  double overhead_s = std::stod(simgrid::config::get_value<std::string>("smpi/or").substr(2));
  int charged_below = simgrid::config::get_value<int>("smpi/send-is-detached-thresh");
};

}  // namespace

void set_rates(const Rates& of_all_ranks) { rates = of_all_ranks; }

std::int64_t now_ns() { return static_cast<std::int64_t>(MPI_Wtime() * 1e9); }

void spend(double seconds) {
  if (seconds > 0) simgrid::s4u::this_actor::sleep_for(seconds);
}

void message_end(std::int64_t bytes) {
  static const Ends ends;
  if (bytes >= ends.charged_below) spend(ends.overhead_s);
}

void copied(std::int64_t bytes) { spend(rates.copy.seconds(static_cast<double>(bytes))); }
void added(std::int64_t bytes) { spend(rates.add_s_per_byte * static_cast<double>(bytes)); }
void updated(std::int64_t bytes) { spend(rates.update_s_per_byte * static_cast<double>(bytes)); }

// Allocates memory that ranks share. SMPI maps one block of a file again and again over the whole
// arena, which thus takes 1 MiB of memory.
void* shared_memory(std::size_t bytes) {
  if (bytes < kSmall || bytes > kArena) return nullptr;
  if (arena == nullptr) arena = static_cast<std::byte*>(SMPI_SHARED_MALLOC(kArena));
  return arena;
}

bool is_shared(const void* memory) {
  const auto* at = static_cast<const std::byte*>(memory);
  return arena != nullptr && at >= arena && at < arena + kArena;
}

}  // namespace halomesh::simulation
