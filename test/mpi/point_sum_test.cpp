// SPDX-License-Identifier: Apache-2.0
// Sums by messages on real ranks: every algorithm, buffers of no to many messages, several sums in
// flight at once.
#include "runtime/step/point_sum.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rng.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/mpi/sum_choices.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kMessageValues = PointSum::kMessageBytes / std::int64_t{sizeof(float)};

// Uniform in [-1, 1), different for each rank.
float value_of(int rank, std::int64_t index) {
  const CounterRng rng(9, RandomUse::kSynth, static_cast<std::uint32_t>(rank), 0);
  return 2.0F * rng.uniform(static_cast<std::uint64_t>(index)) - 1.0F;
}

std::string name_of(const SumChoice& way) {
  return fmt::format("{} {} {}, parts: {}", name_of(way.algorithm), way.place.per_node,
                     name_of(way.across), way.parts);
}

// One sum with its requests.
class Sum {
 public:
  Sum(const Comm& comm, int tag, const SumChoice& way, std::int64_t count)
      : values_(static_cast<std::size_t>(count)),
        sum_(comm, tag, sum_schedule(way, comm.rank(), count, tag), [](int rank) { return rank; }) {
    for (int i = 0; i < PointSum::kRequests; ++i) requests_.add();
    for (std::int64_t i = 0; i < count; ++i)
      values_[static_cast<std::size_t>(i)] = value_of(comm.rank(), i);
  }
  void start() { done_ = sum_.start(values_.data(), &requests_[0]); }
  bool progress(bool wait) {
    std::vector<int> completed;
    if (!done_) requests_.take_completed(wait, completed);
    for (const int i : completed) done_ = sum_.completed(i);
    return done_;
  }
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
  PointSum sum_;
  Requests requests_;
  bool done_ = false;
};

// |sum - exact| <= (n - 1) u sum |x| for n values added in any order, u = 2^-24, to first order.
void check_values(const Comm& comm, const std::vector<float>& sums, std::int64_t stride,
                  const std::string& where, Findings& findings) {
  for (std::int64_t i = 0; i < std::ssize(sums); i += stride) {
    double exact = 0, magnitude = 0;
    for (int rank = 0; rank < comm.size(); ++rank) {
      exact += value_of(rank, i);
      magnitude += std::abs(value_of(rank, i));
    }
    const double got = sums[static_cast<std::size_t>(i)];
    findings.expect(std::abs(got - exact) <= 1.001 * (comm.size() - 1) * 0x1p-24 * magnitude, [&] {
      return fmt::format("{}, element {}: {}, not {}", where, i, got, exact);
    });
  }
}

// Equal on all ranks: a sum of the bits, each weighted by its place.
std::int64_t fingerprint(const std::vector<float>& values) {
  std::uint64_t sum = 0;
  for (const float value : values) sum = 31 * sum + std::bit_cast<std::uint32_t>(value);
  return static_cast<std::int64_t>(sum >> 1);
}

void check_algorithms(const Comm& comm, Findings& findings) {
  for (const SumChoice& way : ways_of(comm.size()))
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{37},
                                     (2 * PointSum::kMessages + 1) * kMessageValues + 5}) {
      // The last one is too long for small machines to be summed on many ranks in every way.
      if (count > kMessageValues && (comm.size() > 4 && way.across != SumAlgorithm::kRing &&
                                     way.algorithm != SumAlgorithm::kHalvingDoubling))
        continue;
      const std::string where = fmt::format("{} of {}", name_of(way), count);
      std::int64_t first = 0;
      for (int run = 0; run < 2; ++run) {
        Sum sum(comm, 3, way, count);
        sum.start();
        while (!sum.progress(true)) {
        }
        const std::int64_t bits = fingerprint(sum.values());
        if (run == 0) {
          check_values(comm, sum.values(), count > 100 ? 4099 : 1, where, findings);
          findings.expect_equal(comm.max(bits), -comm.max(-bits), where + ", bits of the ranks");
          first = bits;
        }
        findings.expect_equal(bits, first, where + ", bits again");
      }
    }
}

TEST_CASE("every algorithm sums every element, with the same bits on all ranks and again") {
  for_comms("sums by messages", check_algorithms);
}

TEST_CASE("every algorithm sums every element on more ranks [16 ranks]") {
  for_comms("sums by messages", {7, 8, 16}, check_algorithms);
}

TEST_CASE("sums in flight together do not mix, whichever rank starts which first") {
  for_comms("several sums at once", {2, 3, 4, 6}, [](const Comm& comm, Findings& findings) {
    constexpr int kSums = 5;
    for (const SumChoice& way : ways_of(comm.size())) {
      std::vector<std::unique_ptr<Sum>> sums;
      for (int i = 0; i < kSums; ++i)
        sums.push_back(std::make_unique<Sum>(comm, i, way, 1000 * i + 3 * comm.size()));
      for (int i = 0; i < kSums; ++i) {
        sums[static_cast<std::size_t>((i + comm.rank()) % kSums)]->start();
        for (int k = 0; k < 3 * comm.rank(); ++k)
          sums[static_cast<std::size_t>(comm.rank() % kSums)]->progress(false);
      }
      for (bool all = false; !all;) {
        all = true;
        for (const auto& sum : sums) all = sum->progress(false) && all;
      }
      for (const auto& sum : sums)
        check_values(comm, sum->values(), 1, name_of(way) + " among others", findings);
    }
  });
}

}  // namespace
}  // namespace halomesh
