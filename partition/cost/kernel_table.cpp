// SPDX-License-Identifier: Apache-2.0
// Kernel times: see kernel_table.hpp.
#include "partition/cost/kernel_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "error.hpp"

namespace halomesh {
namespace {

constexpr std::size_t kExtents = 3;
constexpr std::size_t kUnknowns = kExtents + 1;
using Extents = std::array<double, kExtents>;

// Natural logarithms.
Extents extents_of(const KernelCase& call) {
  const auto log_of = [](std::int64_t n) {
    return std::log(static_cast<double>(std::max<std::int64_t>(n, 1)));
  };
  return {log_of(call.src.d), log_of(call.src.h), log_of(call.src.w)};
}

bool same_extents(const KernelCase& a, const KernelCase& b) {
  return a.src == b.src && a.dst == b.dst && a.batch == b.batch;
}

// Weighted least squares: a symmetric positive definite system, solved by elimination.
class Fit {
 public:
  // Slopes are pulled towards 0 a little, so that few points (even one) still have a solution.
  Fit() {
    for (std::size_t i = 1; i < kUnknowns; ++i) matrix_[i][i] = kRidge;
  }
  void add(const Extents& x, double y, double weight) {
    std::array<double, kUnknowns> row{1};
    std::copy(x.begin(), x.end(), row.begin() + 1);
    for (std::size_t i = 0; i < kUnknowns; ++i) {
      for (std::size_t j = 0; j < kUnknowns; ++j) matrix_[i][j] += weight * row[i] * row[j];
      matrix_[i][kUnknowns] += weight * row[i] * y;
    }
  }
  // The value at x = 0. Unknown 0 comes last, so that no back substitution is needed.
  double at_zero() {
    for (std::size_t k = kUnknowns; k-- > 1;)
      for (std::size_t i = 0; i < k; ++i) {
        const double factor = matrix_[i][k] / matrix_[k][k];
        for (std::size_t j = 0; j <= kUnknowns; ++j) matrix_[i][j] -= factor * matrix_[k][j];
      }
    return matrix_[0][kUnknowns] / matrix_[0][0];
  }

 private:
  static constexpr double kRidge = 0.05;
  std::array<std::array<double, kUnknowns + 1>, kUnknowns> matrix_{};
};

}  // namespace

const char* name_of(KernelPass pass) {
  switch (pass) {
    case KernelPass::kForward:
      return "forward";
    case KernelPass::kBackwardData:
      return "backward data";
    case KernelPass::kBackwardParameters:
      break;
  }
  return "backward parameters";
}

void KernelTable::add(const KernelCase& call, double seconds) {
  require(!call.kernel.empty() && call.src.volume() > 0 && call.dst.volume() > 0 && call.batch > 0,
          fmt::format("a measured kernel \"{}\" of src {}, dst {}, batch {}", call.kernel, call.src,
                      call.dst, call.batch),
          "kernel times need a name, and extents and a batch of at least 1");
  require(
      std::isfinite(seconds) && seconds > 0,
      fmt::format("{} of {} on {} took {} s", name_of(call.pass), call.kernel, call.src, seconds),
      "kernel times are positive: measure it again");
  std::vector<Measurement>& group = groups_[key_of(call)];
  const auto found = std::find_if(group.begin(), group.end(),
                                  [&](const Measurement& m) { return same_extents(m.call, call); });
  if (found != group.end())
    found->seconds = seconds;
  else
    group.push_back({call, seconds});
}

std::size_t KernelTable::size() const {
  std::size_t sum = 0;
  for (const auto& entry : groups_) sum += entry.second.size();
  return sum;
}

double KernelTable::work_of(const KernelCase& call) const {
  if (rates.peak_flops * rates.efficiency > 0 && rates.triad > 0)
    return std::max(roofline(call), 1e-12);
  return call.flops > 0 ? call.flops : std::max(call.bytes, 1.0);
}

double KernelTable::roofline(const KernelCase& call) const {
  require(rates.peak_flops * rates.efficiency > 0 || call.flops == 0,
          text("{} of {} on {} was not measured, and the CPU's peak is unknown", name_of(call.pass),
               call.kernel, call.src),
          "give the machine a peak and an efficiency");
  require(rates.triad > 0 || call.bytes == 0,
          text("{} of {} on {} was not measured, and the memory's bandwidth is unknown",
               name_of(call.pass), call.kernel, call.src),
          "give the machine a triad bandwidth");
  return std::max(call.flops > 0 ? call.flops / (rates.efficiency * rates.peak_flops) : 0,
                  call.bytes > 0 ? call.bytes / rates.triad : 0);
}

KernelTime KernelTable::time(const KernelCase& call) const {
  if (call.kernel.empty()) return {0, KernelTime::Source::kMeasured};
  const auto group = groups_.find(key_of(call));
  if (group == groups_.end()) return {roofline(call), KernelTime::Source::kRoofline};
  const Extents wanted = extents_of(call);
  std::array<bool, kExtents> near{};
  Fit fit;
  for (const Measurement& m : group->second) {
    if (same_extents(m.call, call)) return {m.seconds, KernelTime::Source::kMeasured};
    Extents x = extents_of(m.call);
    const double samples = std::log(static_cast<double>(m.call.batch) /
                                    static_cast<double>(std::max<std::int64_t>(call.batch, 1)));
    double distance2 = samples * samples;
    for (std::size_t i = 0; i < kExtents; ++i) {
      x[i] -= wanted[i];
      near[i] = near[i] || std::abs(x[i]) <= std::log(4.0) + 1e-9;
      distance2 += x[i] * x[i];
    }
    fit.add(x, std::log(m.seconds / work_of(m.call)), 1 / (0.01 + distance2 * distance2));
  }
  if (!std::all_of(near.begin(), near.end(), [](bool b) { return b; }))
    return {roofline(call), KernelTime::Source::kRoofline};
  return {std::exp(fit.at_zero()) * work_of(call), KernelTime::Source::kInterpolated};
}

}  // namespace halomesh
