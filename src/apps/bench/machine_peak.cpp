// SPDX-License-Identifier: Apache-2.0
// The peak performance of all ranks: see machine_peak.hpp.
#include "src/apps/bench/machine_peak.hpp"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "runtime/mpi/collective_errors.hpp"
#include "runtime/posix/memory_needs.hpp"
#include "src/nn/kernels/peak.hpp"
#include "src/nn/onednn/library.hpp"
#include "src/nn/onednn/matrix_products.hpp"

namespace halomesh {
namespace {

// Many short tries: on a busy machine one of them probably runs undisturbed, and where ranks share
// a core it probably fits into one time slice.
constexpr double kTrySeconds = 2e-3;
constexpr int kTries = 100, kTriadTries = 10;

/// Operations per second of the calling thread: the best of several tries.
double best_rate_of_thread(double (*loop)(std::int64_t rounds)) {
  std::int64_t rounds = 1 << 8;
  const auto try_once = [&] {
    const double begin = omp_get_wtime();
    const double operations = loop(rounds);
    return std::pair(operations, std::max(omp_get_wtime() - begin, 1e-9));
  };
  while (try_once().second < kTrySeconds && rounds < (std::int64_t{1} << 40)) rounds *= 2;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto [operations, seconds] = try_once();
    best = std::max(best, operations / seconds);
  }
  return best;
}

/// Operations per second of this rank. All ranks and threads run at once, so that the clock rate is
/// that of a fully loaded machine.
double best_rate(const Comm& world, double (*loop)(std::int64_t rounds)) {
  world.barrier();
  double sum = 0;
#pragma omp parallel reduction(+ : sum)
  sum += best_rate_of_thread(loop);
  return sum;
}

/// Bytes per second of all ranks. They share memory, so a try lasts until the last rank is done.
double best_triad(const Comm& world, std::int64_t array_bytes) {
  on_all_ranks(world, [&] {
    require_memory("the arrays that measure the speed of memory", 3 * array_bytes);
  });
  Triad triad(array_bytes);
  double best = 0;
  for (int i = 0; i < kTriadTries; ++i) {
    world.barrier();
    const double begin = MPI_Wtime();
    const double bytes = triad.run();
    const double seconds = world.max(MPI_Wtime() - begin);
    best = std::max(best, world.sum(bytes) / std::max(seconds, 1e-9));
  }
  return best;
}

}  // namespace

double MachinePeak::roof(const PhaseWork& work, const std::string& precision) const {
  const double peak = of(precision);
  if (work.memory_bytes <= 0) return peak;
  return std::min(peak, work.flops / work.memory_bytes * triad);
}

MachinePeak measure_peak(const Comm& world, double core_share, std::int64_t array_bytes) {
  MachinePeak peak;
  peak.fp32 = world.sum(core_share * best_rate(world, run_multiply_adds));
  // All ranks run one program: it has these instructions on every rank or on none.
  if (cpu_computes_bf16())
    peak.bf16 = world.sum(core_share * best_rate(world, run_bfloat16_products));
  peak.triad = best_triad(world, array_bytes);
  return peak;
}

}  // namespace halomesh
