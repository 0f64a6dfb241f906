// SPDX-License-Identifier: Apache-2.0
// The time of a layer on one part: measured, interpolated between measurements, or bounded by a
// roofline. Must not depend on layers; src/nn/kernel_case makes a case of a layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "shape.hpp"

namespace halomesh {

enum class KernelPass : std::uint8_t { kForward, kBackwardData, kBackwardParameters };

/// "forward", "backward data" or "backward parameters".
const char* name_of(KernelPass pass);

/// One call of a layer on one part.
struct KernelCase {
  std::string kernel;  ///< the computation apart from extents; empty: costs nothing measurable
  KernelPass pass = KernelPass::kForward;
  Shape src, dst;  ///< extents of the part's boxes, channels included: read and produced
  std::int64_t batch = 1;
  int threads = 1;
  double flops = 0;  ///< multiply-adds x 2 of this call
  double bytes = 0;  ///< least number read and written
};

struct KernelTime {
  enum class Source : std::uint8_t { kMeasured, kInterpolated, kRoofline };
  double seconds = 0;
  Source source = Source::kRoofline;
};

/// Measured kernel times of one CPU.
class KernelTable {
 public:
  /// The rates of one rank.
  struct Rates {
    double peak_flops = 0;  ///< per second
    double efficiency = 1;  ///< share of the peak that a kernel without a measurement reaches
    double triad = 0;       ///< bytes per second
  };
  Rates rates;

  /// Adds a measurement; one of the same case is replaced. Throws Error for a time that is not
  /// positive and finite, or a case without kernel or extents.
  void add(const KernelCase& call, double seconds);

  /// The time of a call:
  /// - measured, where the table has this very case;
  /// - interpolated, where it has cases of the same kernel, pass, channels and threads, and each
  ///   extent (d, h, w of src) lies within a factor 4 of one of theirs, with any batch, as samples
  ///   are computed one after the other: the time relative to that of the roofline (per flop or
  ///   byte where a rate is not set) is a linear function of the logarithms of the extents, fitted
  ///   with weights that fall with distance;
  /// - else max(flops / (efficiency * peak), bytes / triad) (Williams, Waterman & Patterson, CACM
  ///   52, 2009, 65-76); throws Error where the rate that this needs is not set.
  KernelTime time(const KernelCase& call) const;

  /// Number of measured cases.
  std::size_t size() const;

 private:
  // kernel, pass, channels of src and dst, threads
  using Key = std::tuple<std::string, KernelPass, std::int64_t, std::int64_t, int>;
  struct Measurement {
    KernelCase call;
    double seconds;
  };
  static Key key_of(const KernelCase& call) {
    return {call.kernel, call.pass, call.src.c, call.dst.c, call.threads};
  }
  double work_of(const KernelCase& call) const;
  double roofline(const KernelCase& call) const;

  std::map<Key, std::vector<Measurement>> groups_;
};

}  // namespace halomesh
