// What the ranks of a job can do together at best: see machine_peak.hpp.
#include "src/apps/machine_peak.hpp"

#include <algorithm>

#include "src/nn/peak.hpp"

namespace halomesh {
namespace {

// Many short tries: on a machine with other work one of them is likely to run undisturbed.
constexpr int kTries = 10;
constexpr double kTrySeconds = 0.02;

/// Work a second of all ranks in `run`, which returns the work of this rank.
template <class Run>
double rate_of(const Comm& world, Run run) {
  world.barrier();
  const double begin = MPI_Wtime();
  const double work = run();
  const double seconds = world.max(MPI_Wtime() - begin);
  return world.sum(work) / std::max(seconds, 1e-9);
}

template <class Run>
double best_of(const Comm& world, Run run) {
  double best = 0;
  for (int i = 0; i < kTries; ++i) best = std::max(best, rate_of(world, run));
  return best;
}

/// The best rate of a loop that does so many `rounds`, after finding how many fill a try.
double best_rate(const Comm& world, double (*loop)(std::int64_t rounds)) {
  std::int64_t rounds = 1 << 12;
  while (rounds < (std::int64_t{1} << 40)) {
    const double begin = MPI_Wtime();
    loop(rounds);
    if (world.max(MPI_Wtime() - begin) > kTrySeconds) break;
    rounds *= 2;
  }
  return best_of(world, [&] { return loop(rounds); });
}

}  // namespace

double MachinePeak::roof(const PhaseWork& work, const std::string& precision) const {
  const double peak = of(precision);
  if (work.memory_bytes <= 0) return peak;
  return std::min(peak, work.flops / work.memory_bytes * triad);
}

MachinePeak measure_peak(const Comm& world, std::int64_t array_bytes) {
  MachinePeak peak;
  peak.fp32 = best_rate(world, run_multiply_adds);
  // All ranks of a job run one program: it either has these instructions or not.
  if (run_bfloat16_dots(1) > 0) peak.bf16 = best_rate(world, run_bfloat16_dots);
  Triad triad(array_bytes);
  peak.triad = best_of(world, [&] { return triad.run(); });
  return peak;
}

}  // namespace halomesh
