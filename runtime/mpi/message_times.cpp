// SPDX-License-Identifier: Apache-2.0
// Times messages and collectives: see message_times.hpp.
#include "runtime/mpi/message_times.hpp"

#include <algorithm>
#include <cmath>

#include "narrow.hpp"
#include "runtime/mpi/quiet_barrier.hpp"

namespace halomesh {
namespace {

constexpr int kBatches = 15, kMessageTries = 9, kTimesTag = 1;
constexpr double kBatchSeconds = 2e-3, kSumSeconds = 0.5;
constexpr int kMostRoundTrips = 1000;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void send(const Comm& comm, std::span<std::byte> bytes, int to) {
  mpi_check(MPI_Send(bytes.data(), narrow<int>(std::ssize(bytes)), MPI_BYTE, to, kTimesTag,
                     comm.handle()));
}

void receive(const Comm& comm, std::span<std::byte> bytes, int from) {
  mpi_check(MPI_Recv(bytes.data(), narrow<int>(std::ssize(bytes)), MPI_BYTE, from, kTimesTag,
                     comm.handle(), MPI_STATUS_IGNORE));
}

/// The time of one way in seconds, from `trips` round trips that the first rank of two starts.
double one_way(const Comm& two, std::span<std::byte> bytes, int trips) {
  const double begin = MPI_Wtime();
  for (int i = 0; i < trips; ++i) {
    if (two.rank() == 0) send(two, bytes, 1);
    receive(two, bytes, 1 - two.rank());
    if (two.rank() == 1) send(two, bytes, 0);
  }
  return (MPI_Wtime() - begin) / (2 * trips);
}

double fastest_one_way(const Comm& two, std::span<std::byte> bytes) {
  one_way(two, bytes, 2);
  const double once = two.max(one_way(two, bytes, 2));
  const int trips =
      std::clamp(static_cast<int>(kBatchSeconds / (2 * once + 1e-9)), 1, kMostRoundTrips);
  double fastest = once;
  for (int i = 0; i < kBatches; ++i) fastest = std::min(fastest, one_way(two, bytes, trips));
  return two.max(two.rank() == 0 ? fastest : 0);
}

/// The pair as a communicator, whose rank 0 is its first rank; null elsewhere. Collective.
Comm split_pair(const Comm& comm, const RankPair& pair) {
  const bool first = comm.rank() == pair.first, second = comm.rank() == pair.second;
  return comm.split(first || second ? 0 : -1, first ? 0 : 1);
}

}  // namespace

std::vector<MessageTime> ping_pong(const Comm& comm, const RankPair& pair,
                                   std::span<const std::int64_t> sizes) {
  const Comm two = split_pair(comm, pair);
  std::vector<double> seconds(sizes.size());
  if (!two.is_null()) {
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end())));
    for (std::size_t i = 0; i < sizes.size(); ++i)
      seconds[i] = fastest_one_way(two, std::span(bytes).first(static_cast<std::size_t>(sizes[i])));
  }
  quiet_barrier(comm);
  comm.max(std::span(seconds));
  std::vector<MessageTime> times;
  for (std::size_t i = 0; i < sizes.size(); ++i) times.push_back({sizes[i], seconds[i]});
  return times;
}

// Minimises the sum of ((a + b n - t) / t)^2 by the normal equations of the rows (1, n) / t.
LinkFit fit_link(std::span<const MessageTime> times) {
  double s0 = 0, s1 = 0, s2 = 0, r0 = 0, r1 = 0;
  for (const MessageTime& each : times) {
    const auto n = static_cast<double>(each.bytes);
    const double weight = 1 / (each.seconds * each.seconds);
    s0 += weight;
    s1 += weight * n;
    s2 += weight * n * n;
    r0 += weight * each.seconds;
    r1 += weight * each.seconds * n;
  }
  const double determinant = s0 * s2 - s1 * s1;
  if (!(determinant > 0)) return {r0 / s0, 0};
  const LinkFit fit{(r0 * s2 - r1 * s1) / determinant, (s0 * r1 - s1 * r0) / determinant};
  if (fit.s_per_byte < 0) return {r0 / s0, 0};
  if (fit.latency_s < 0) return {0, r1 / s2};
  return fit;
}

std::int64_t eager_limit(const Comm& comm, const RankPair& pair) {
  constexpr std::int64_t kMost = 4 << 20;
  const Comm two = split_pair(comm, pair);
  std::int64_t limit = 0;
  if (!two.is_null()) {
    std::vector<std::byte> bytes(kMost);
    bool eager = true;
    for (std::int64_t n = 64; n <= kMost && eager; n *= 2) {
      const auto part = std::span(bytes).first(static_cast<std::size_t>(n));
      if (two.rank() == 0) {
        Requests request;
        mpi_check(MPI_Isend(part.data(), narrow<int>(n), MPI_BYTE, 1, kTimesTag, two.handle(),
                            request.add()));
        const double begin = MPI_Wtime();
        while (!(eager = request.test_all()) && MPI_Wtime() < begin + 2e-3) continue;
        two.barrier();  // the receiver posts its receive only now
      } else {
        two.barrier();
        receive(two, part, 0);
      }
      eager = two.max(std::int64_t{two.rank() == 0 && eager ? 1 : 0}) > 0;
      if (eager) limit = n;
    }
  }
  quiet_barrier(comm);
  return comm.max(limit);
}

double injection_s_per_byte(const Comm& comm, int color, int place, std::int64_t bytes) {
  constexpr int kMessages = 4;
  const Comm senders_and_receivers = comm.split(color == 0 || color == 1 ? 0 : -1, comm.rank());
  const Comm pair = comm.split(color == 0 || color == 1 ? place : -1, color);
  double result = 0;
  if (!senders_and_receivers.is_null()) {
    const bool paired = pair.size() == 2;
    std::vector<std::byte> buffer(static_cast<std::size_t>(bytes));
    std::vector<double> seconds;
    for (int i = 0; i < kBatches; ++i) {
      senders_and_receivers.barrier();
      const double begin = MPI_Wtime();
      for (int m = 0; paired && m < kMessages; ++m)
        color == 0 ? send(pair, buffer, 1) : receive(pair, buffer, 0);
      seconds.push_back(senders_and_receivers.max(MPI_Wtime() - begin));
    }
    const double sent = senders_and_receivers.sum(
        paired && color == 0 ? static_cast<double>(kMessages * bytes) : 0.0);
    result = sent > 0 ? median(seconds) / sent : 0;
  }
  quiet_barrier(comm);
  return comm.max(result);
}

double median_seconds(const Comm& comm, int ranks, const std::function<void(const Comm&)>& work) {
  const Comm part = comm.split(comm.rank() < ranks ? 0 : -1, comm.rank());
  double result = 0;
  if (!part.is_null()) {
    work(part);
    std::vector<double> seconds;
    double sum = 0;
    for (int i = 0; i < kMessageTries && (i < 3 || sum < kSumSeconds); ++i) {
      part.barrier();
      const double begin = MPI_Wtime();
      work(part);
      seconds.push_back(part.max(MPI_Wtime() - begin));
      sum += seconds.back();
    }
    result = median(seconds);
  }
  quiet_barrier(comm);
  return comm.max(result);
}

double poll_cost_s(const Comm& comm) {
  constexpr int kPolls = 20000;
  const Comm alone = comm.split(comm.rank(), 0);
  int value = 0, sent = 0;
  Requests request;
  mpi_check(MPI_Irecv(&value, 1, MPI_INT, 0, kTimesTag, alone.handle(), request.add()));
  const double begin = MPI_Wtime();
  for (int i = 0; i < kPolls; ++i) request.test_all();
  const double seconds = MPI_Wtime() - begin;
  mpi_check(MPI_Send(&sent, 1, MPI_INT, 0, kTimesTag, alone.handle()));
  request.wait_all();
  return seconds / kPolls;
}

}  // namespace halomesh
