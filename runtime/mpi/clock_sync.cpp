// SPDX-License-Identifier: Apache-2.0
// The clocks of all nodes on one time scale: see clock_sync.hpp.
#include "runtime/mpi/clock_sync.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "narrow.hpp"

namespace halomesh {
namespace {

constexpr int kRoundTrips = 16, kSyncTag = 0;

void send(const Comm& comm, std::int64_t value, int to) {
  mpi_check(MPI_Send(&value, 1, MPI_INT64_T, to, kSyncTag, comm.handle()));
}

std::int64_t receive(const Comm& comm, int from) {
  std::int64_t value = 0;
  mpi_check(MPI_Recv(&value, 1, MPI_INT64_T, from, kSyncTag, comm.handle(), MPI_STATUS_IGNORE));
  return value;
}

}  // namespace

ClockSync::ClockSync(const Comm& world, Comm node, Clock clock)
    : world_(world),
      node_(std::move(node)),
      leaders_(world.split(node_.rank() == 0 ? 0 : -1, world.rank())),
      clock_(std::move(clock)),
      nodes_(narrow<int>(world.sum(std::int64_t{node_.rank() == 0 ? 1 : 0}))) {}

/// Rank 0 measures one leader's clock and tells it the result; raises `error_ns` to its error.
void ClockSync::ask(int leader, std::int64_t& error_ns) const {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  Point point;
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::int64_t begin = clock_();
    send(leaders_, 0, leader);
    const std::int64_t there = receive(leaders_, leader);
    const std::int64_t end = clock_();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    point = {there, there - begin - (end - begin) / 2};
  }
  send(leaders_, point.local_ns, leader);
  send(leaders_, point.offset_ns, leader);
  error_ns = std::max(error_ns, shortest / 2 + 1);  // rounded up
}

ClockSync::Point ClockSync::answer() const {
  for (int i = 0; i < kRoundTrips; ++i) {
    receive(leaders_, 0);
    send(leaders_, clock_(), 0);
  }
  const std::int64_t local_ns = receive(leaders_, 0);
  return {local_ns, receive(leaders_, 0)};
}

void ClockSync::measure() {
  world_.barrier();
  Point point{clock_(), 0};
  std::int64_t error_ns = error_ns_;
  if (!leaders_.is_null() && leaders_.rank() > 0) point = answer();
  if (!leaders_.is_null() && leaders_.rank() == 0)
    for (int leader = 1; leader < leaders_.size(); ++leader) ask(leader, error_ns);
  node_.broadcast(std::as_writable_bytes(std::span(&point, 1)), 0);
  error_ns_ = world_.max(error_ns);
  points_.push_back(point);
}

std::int64_t ClockSync::common_ns(std::int64_t local_ns) const {
  const auto after =
      std::upper_bound(points_.begin(), points_.end(), local_ns,
                       [](std::int64_t at, const Point& point) { return at < point.local_ns; });
  if (after == points_.begin()) return local_ns - points_.front().offset_ns;
  if (after == points_.end()) return local_ns - points_.back().offset_ns;
  const Point &a = *(after - 1), &b = *after;
  const double share =
      static_cast<double>(local_ns - a.local_ns) / static_cast<double>(b.local_ns - a.local_ns);
  return local_ns - a.offset_ns -
         std::llround(share * static_cast<double>(b.offset_ns - a.offset_ns));
}

}  // namespace halomesh
