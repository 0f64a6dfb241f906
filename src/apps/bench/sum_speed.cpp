// SPDX-License-Identifier: Apache-2.0
// Speed of sums over ranks: see sum_speed.hpp.
#include "src/apps/bench/sum_speed.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <utility>

#include "narrow.hpp"
#include "runtime/step/holder_set.hpp"
#include "runtime/step/point_sum.hpp"
#include "runtime/step/reduction.hpp"
#include "simulation.hpp"
#include "text_table.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kBucketValues = 1 << 20;  // 4 MiB, as in training

constexpr std::int64_t kCacheValues = 8 << 20;  // 32 MiB per rank: more than the caches hold

/// Sums of consecutive buckets of a buffer, all in flight at once.
class OwnSums {
 public:
  OwnSums(const ProcessMesh& mesh, Reduction reduction, std::int64_t count, std::int64_t bucket) {
    const Comm& world = mesh.world();
    const HolderSet all({world.size(), {1, 1, 1}}, mesh.ranks_per_node(), {0});
    for (std::int64_t lo = 0; lo < count; lo += bucket) {
      const std::int64_t volume = std::min(bucket, count - lo);
      const SumChoice choice =
          all.choose(reduction, static_cast<double>(volume) * sizeof(float), mesh.torus());
      const auto rounds =
          sum_schedule(choice, world.rank(), volume, narrow<int>(std::ssize(sums_)));
      offsets_.push_back(lo);
      sums_.emplace_back(world, narrow<int>(std::ssize(sums_)), rounds,
                         [](int rank) { return rank; });
      for (int i = 0; i < PointSum::kRequests; ++i) requests_.add();
    }
    completed_.reserve(requests_.size());
  }
  void run(float* values) {
    std::size_t active = sums_.size();
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (sums_[i].start(values + offsets_[i], &requests_[i * PointSum::kRequests])) --active;
    while (active > 0) {
      completed_.clear();
      requests_.take_completed(true, completed_);
      for (const int i : completed_)
        if (sums_[static_cast<std::size_t>(i / PointSum::kRequests)].completed(i %
                                                                               PointSum::kRequests))
          --active;
    }
  }

 private:
  std::vector<std::int64_t> offsets_;
  std::vector<PointSum> sums_;
  Requests requests_;
  std::vector<int> completed_;
};

struct Way {
  std::string name;
  bool own;
  std::function<void()> sum;
};

std::vector<Way> own_ways(const ProcessMesh& mesh, AlignedBuffer<float>& values) {
  using enum Reduction;
  std::vector<Way> ways;
  const std::int64_t count = values.size();
  for (const Reduction reduction : {kAuto, kHalving, kDoubling, kRing, kTwoLevel, kBinomial}) {
    // Simulated ranks only compare the program's choice with a tree: other algorithms would send
    // millions of messages.
    if (simulation::kOn && reduction != kAuto && reduction != kBinomial) continue;
    if (reduction == kTwoLevel &&
        (mesh.ranks_per_node() == 1 || mesh.ranks_per_node() == mesh.world().size()))
      continue;
    const std::int64_t bucket = reduction == kAuto ? kBucketValues : count;
    ways.push_back({name_of(reduction), true,
                    [sums = std::make_shared<OwnSums>(mesh, reduction, count, bucket), &values] {
                      sums->run(values.data());
                    }});
  }
  return ways;
}

std::vector<Way> mpi_ways(const ProcessMesh& mesh, AlignedBuffer<float>& values,
                          const AlignedBuffer<float>& source) {
  const MPI_Comm comm = mesh.world().handle();
  const int count = narrow<int>(values.size());
  float* const to = values.data();
  const float* const from = source.data();
  const auto blocking = [=](const void* in) {
    mpi_check(MPI_Allreduce(in, to, count, MPI_FLOAT, MPI_SUM, comm));
  };
  const auto non_blocking = [=](const void* in) {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_check(MPI_Iallreduce(in, to, count, MPI_FLOAT, MPI_SUM, comm, &request));
    mpi_check(MPI_Wait(&request, MPI_STATUS_IGNORE));
  };
  return {{"MPI_Allreduce", false, [=] { blocking(from); }},
          {"MPI_Allreduce in place", false, [=] { blocking(MPI_IN_PLACE); }},
          {"MPI_Iallreduce", false, [=] { non_blocking(from); }},
          {"MPI_Iallreduce in place", false, [=] { non_blocking(MPI_IN_PLACE); }}};
}

}  // namespace

std::vector<SumSpeed> measure_sums(const ProcessMesh& mesh, std::span<const std::int64_t> sizes,
                                   int tries) {
  std::vector<SumSpeed> speeds;
  const Comm& world = mesh.world();
  for (const std::int64_t bytes : sizes) {
    AlignedBuffer<float> values(bytes / std::int64_t{sizeof(float)}), source(values.size()),
        others(kCacheValues);
    std::vector<Way> ways = own_ways(mesh, values);
    // SimGrid's own sums differ from those of real libraries; its non-blocking ones send all to
    // all.
    if (!simulation::kOn)
      for (Way& way : mpi_ways(mesh, values, source)) ways.push_back(std::move(way));
    std::vector<std::vector<double>> seconds(ways.size());
    std::vector<std::size_t> order(ways.size());
    std::iota(order.begin(), order.end(), 0);
    std::minstd_rand shuffler;  // equal on all ranks
    for (int attempt = 0; attempt <= tries; ++attempt) {
      // The speed of a sum depends on the sum before it, so the order changes with each round.
      std::shuffle(order.begin(), order.end(), shuffler);
      for (const std::size_t i : order) {
        // Zeros, because repeated sums would overflow. Writing them also clears the caches of the
        // memory of the previous sum.
        if (!simulation::kOn) {
          std::fill_n(values.data(), values.size(), 0.0F);
          std::fill_n(source.data(), source.size(), 0.0F);
          std::fill_n(others.data(), others.size(), 0.0F);
        }
        world.barrier();
        const double begin = MPI_Wtime();
        ways[i].sum();
        const double last = world.max(MPI_Wtime() - begin);
        if (attempt > 0 || tries == 0) seconds[i].push_back(last);
      }
    }
    for (std::size_t i = 0; i < ways.size(); ++i) {
      std::sort(seconds[i].begin(), seconds[i].end());
      speeds.push_back({bytes, ways[i].name, ways[i].own, seconds[i][seconds[i].size() / 2],
                        seconds[i].front(), seconds[i].back()});
    }
  }
  return speeds;
}

void print_sums(std::ostream& out, const std::vector<SumSpeed>& sums) {
  TextTable table({"bytes", "sum", "ms", "min", "max", "/ best of MPI"}, "><>>>>");
  for (const SumSpeed& sum : sums) {
    double best_s = 0;
    for (const SumSpeed& other : sums)
      if (!other.own && other.bytes == sum.bytes && (best_s == 0 || other.median_s < best_s))
        best_s = other.median_s;
    const auto ms = [](double seconds) { return fmt::format("{:.3f}", seconds * 1e3); };
    table.add({fmt::format("{}", sum.bytes), sum.way, ms(sum.median_s), ms(sum.min_s),
               ms(sum.max_s), best_s > 0 ? fmt::format("{:.2f}", sum.median_s / best_s) : "-"});
  }
  out << table;
}

nlohmann::ordered_json sums_json(const std::vector<SumSpeed>& sums, int ranks) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const SumSpeed& sum : sums)
    json.push_back({{"ranks", ranks},
                    {"bytes", sum.bytes},
                    {"algorithm", sum.way},
                    {"seconds", sum.median_s},
                    {"min_seconds", sum.min_s},
                    {"max_seconds", sum.max_s}});
  return json;
}

}  // namespace halomesh
