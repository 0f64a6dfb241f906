// SPDX-License-Identifier: Apache-2.0
// Trials of the library's kernels: see onednn_own_memory.hpp.
#include "src/nn/onednn/own_memory.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace halomesh::onednn {
namespace {

using Vector = std::vector<double>;
using Axes = std::array<Vector, 3>;

double most(const Vector& values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return most;
}

// An outer product: the values row * column + added[column], row by row.
struct OuterProduct {
  Vector rows, columns, added{};

  double at(std::size_t row, std::size_t column) const {
    return rows[row] * columns[column] + (added.empty() ? 0 : added[column]);
  }
  double bound() const { return most(rows) * most(columns) + most(added); }
  std::vector<float> values() const {
    std::vector<float> all(rows.size() * columns.size());
#pragma omp parallel for schedule(static) if (all.size() > 65536)
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::size_t column = 0; column < columns.size(); ++column)
        all[row * columns.size() + column] = static_cast<float>(at(row, column));
    return all;
  }
  // Whether `got` has these values times `scale`, rounded to `type`.
  bool equals(const std::vector<float>& got, DataType type, double scale) const {
    bool equal = true;
#pragma omp parallel for schedule(static) reduction(&& : equal) if (got.size() > 65536)
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::size_t column = 0; column < columns.size(); ++column) {
        auto right = static_cast<float>(scale * at(row, column));
        if (type == DataType::kBfloat16) right = float{Bfloat16(right)};
        equal = equal && got[row * columns.size() + column] == right;
      }
    return equal;
  }
};

// The factors of the outer products that fill the arguments.
struct Factors {
  Vector src_channels, dst_channels, in, out, bias;
  Axes src, dst, taps;
};

// Numbers that look random: 1, 2 and -1 at level 0, then 1 and -1, then with more zeros at each
// level.
Vector small_integers(std::int64_t count, std::uint64_t stream, int level) {
  Vector all;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t bits = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15U + stream;
    bits = (bits ^ (bits >> 29U)) * 0xbf58476d1ce4e5b9U >> 40U;
    const bool is_zero = i > 0 && level > 1 && bits % (std::uint64_t{1} << (level - 1)) != 0;
    const std::uint64_t kind = (bits >> 12U) % 3;
    all.push_back(is_zero ? 0 : kind == 0 ? -1 : kind == 1 && level == 0 ? 2 : 1);
  }
  return all;
}

Factors factors_of(const ConvolutionGeometry& g, int level) {
  std::uint64_t stream = 0;
  const auto next = [&](std::int64_t count) { return small_integers(count, ++stream, level); };
  const auto axes = [&](const Spatial& extents) {
    return Axes{next(extents[0]), next(extents[1]), next(extents[2])};
  };
  Factors f;
  f.src_channels = next(g.src.c);
  f.dst_channels = next(g.dst.c);
  f.in = next(g.src.c);
  f.out = next(g.dst.c);
  f.bias = next(g.dst.c);
  f.src = axes(g.src.spatial());
  f.dst = axes(g.dst.spatial());
  f.taps = axes(g.kernel);
  return f;
}

Factors magnitudes_of(Factors f) {
  const auto positive = [](Vector& all) {
    for (double& x : all) x = std::abs(x);
  };
  for (Vector* all : {&f.src_channels, &f.dst_channels, &f.in, &f.out, &f.bias}) positive(*all);
  for (Axes* axes : {&f.src, &f.dst, &f.taps})
    for (Vector& all : *axes) positive(all);
  return f;
}

Vector outer(const Axes& axes) {
  Vector all;
  for (const double d : axes[0])
    for (const double h : axes[1])
      for (const double w : axes[2]) all.push_back(d * h * w);
  return all;
}

// The products of a pair of channels out,in of one group, one per row.
Vector pairs(const ConvolutionGeometry& g, const Vector& out, const Vector& in) {
  const std::int64_t outs = g.dst.c / g.groups, ins = g.src.c / g.groups;
  Vector all;
  for (std::int64_t o = 0; o < g.dst.c; ++o)
    for (std::int64_t i = 0; i < ins; ++i)
      all.push_back(out[static_cast<std::size_t>(o)] *
                    in[static_cast<std::size_t>(o / outs * ins + i)]);
  return all;
}

// The sum of products of each channel's group.
Vector sums_of_groups(const ConvolutionGeometry& g, const Vector& a, const Vector& b,
                      std::int64_t channels) {
  const std::size_t size = a.size() / static_cast<std::size_t>(g.groups);
  Vector sums;
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::size_t begin = static_cast<std::size_t>(c / (channels / g.groups)) * size;
    double sum = 0;
    for (std::size_t i = begin; i < begin + size; ++i) sum += a[i] * b[i];
    sums.push_back(sum);
  }
  return sums;
}

Vector times(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}

// Calls add(sum, axis, src, dst, tap) for the places along each axis that the convolution
// multiplies; returns the sums, of the given sizes.
template <class Add>
Axes along_axes(const ConvolutionGeometry& g, const Spatial& sizes, const Add& add) {
  Axes sums;
  for (std::size_t a = 0; a < 3; ++a) {
    sums[a].resize(static_cast<std::size_t>(sizes[a]));
    for (std::int64_t dst = 0; dst < g.dst.spatial()[a]; ++dst)
      for (std::int64_t tap = 0; tap < g.kernel[a]; ++tap) {
        const std::int64_t src = dst * g.stride[a] - g.pad_before[a] + tap * g.dilation[a];
        if (src >= 0 && src < g.src.spatial()[a])
          add(sums[a], a, static_cast<std::size_t>(src), static_cast<std::size_t>(dst),
              static_cast<std::size_t>(tap));
      }
  }
  return sums;
}

struct Values {
  OuterProduct src, weights, dst, bias;
};

// The values of the arguments, both those that are read and those that must be written.
Values values_of(const KernelTrial& trial, const Factors& f) {
  const ConvolutionGeometry& g = trial.geometry;
  Values v{{outer(f.src), f.src_channels},
           {pairs(g, f.out, f.in), outer(f.taps)},
           {outer(f.dst), f.dst_channels},
           {{1}, f.bias}};
  switch (trial.pass) {
    case KernelTrial::Pass::kForward:
      v.dst = {outer(along_axes(g, g.dst.spatial(),
                                [&](Vector& sum, std::size_t a, auto src, auto dst, auto tap) {
                                  sum[dst] += f.src[a][src] * f.taps[a][tap];
                                })),
               times(sums_of_groups(g, f.src_channels, f.in, g.dst.c), f.out)};
      if (trial.bias) v.dst.added = f.bias;
      break;
    case KernelTrial::Pass::kBackwardData:
      v.src = {outer(along_axes(g, g.src.spatial(),
                                [&](Vector& sum, std::size_t a, auto src, auto dst, auto tap) {
                                  sum[src] += f.dst[a][dst] * f.taps[a][tap];
                                })),
               times(sums_of_groups(g, f.dst_channels, f.out, g.src.c), f.in)};
      break;
    case KernelTrial::Pass::kBackwardWeights:
      v.weights = {pairs(g, f.dst_channels, f.src_channels),
                   outer(along_axes(g, g.kernel,
                                    [&](Vector& sum, std::size_t a, auto src, auto dst, auto tap) {
                                      sum[tap] += f.src[a][src] * f.dst[a][dst];
                                    }))};
      double all = 1;
      for (const Vector& axis : f.dst) {
        double sum = 0;
        for (const double x : axis) sum += x;
        all *= sum;
      }
      v.bias = {{all}, f.dst_channels};
      break;
  }
  return v;
}

// Values whose sums, in any order, are exact in fp32, as the sums of their magnitudes are below
// 2^24.
Values exact_values(const KernelTrial& trial) {
  constexpr double kExact = 1 << 24;
  for (int level = 0;; ++level) {
    const Factors factors = factors_of(trial.geometry, level);
    const Values most = values_of(trial, magnitudes_of(factors));
    if ((trial.adds ? 2 : 1) * std::max({most.src.bound(), most.weights.bound(), most.dst.bound(),
                                         most.bias.bound()}) <=
        kExact)
      return values_of(trial, factors);
  }
}

void reorder(const Library& lib, const memory::desc& from, const void* src, const memory::desc& to,
             void* dst) {
  memory read(from, lib.engine, const_cast<void*>(src)), written(to, lib.engine, dst);
  dnnl::stream stream = lib.stream;
  dnnl::reorder(read, written).execute(stream, read, written);
  stream.wait();
}

constexpr auto kPoison = std::byte{0xff};  // a NaN in fp32 and bf16

// Memory of the arguments, with the scratchpad last, between zones that no kernel may touch. A
// kernel that goes astray does so by rows, planes or strides of its arguments.
class GuardedMemory {
 public:
  explicit GuardedMemory(const std::vector<std::int64_t>& sizes) {
    constexpr std::int64_t kLeast = 1 << 18, kMost = 1 << 24;
    const std::int64_t zone =
        whole_lines(std::clamp(*std::max_element(sizes.begin(), sizes.end()), kLeast, kMost));
    std::int64_t at = zone;
    for (const std::int64_t size : sizes) {
      parts_.emplace_back(at, size);
      at += whole_lines(size) + zone;
    }
    bytes_.resize(static_cast<std::size_t>(at + whole_lines(1)), kPoison);
    // Arguments start on a cache line, as most tensors do, and end anywhere.
    first_ =
        bytes_.data() + (-reinterpret_cast<std::intptr_t>(bytes_.data()) & (whole_lines(1) - 1));
  }
  std::byte* part(std::size_t i) { return first_ + parts_[i].first; }
  void poison(std::size_t i) { std::fill_n(part(i), parts_[i].second, kPoison); }
  bool zones_are_untouched() const {
    const std::byte* from = bytes_.data();
    bool untouched = true;
    const auto check = [&](const std::byte* to) {
      const auto size = static_cast<std::size_t>(to - from);
      untouched = untouched && from[0] == kPoison && std::memcmp(from, from + 1, size - 1) == 0;
    };
    for (const auto& [at, size] : parts_) {
      check(first_ + at);
      from = first_ + at + size;
    }
    check(bytes_.data() + bytes_.size());
    return untouched;
  }

 private:
  std::vector<std::byte> bytes_;
  std::byte* first_;
  std::vector<std::pair<std::int64_t, std::int64_t>> parts_;  // offset, bytes
};

/// An argument of a kernel that is tried; none without a bias.
struct TrialPart {
  const TriedArgument* argument;
  const OuterProduct* values;
  bool written;

  /// Writes the values to `memory` in the kernel's layout.
  void store(const Library& lib, std::byte* memory) const {
    const std::vector<float> plain_values = values->values();
    reorder(lib, argument->plain, plain_values.data(), argument->layout, memory);
  }
  /// True if `memory` has `scale` times the values.
  bool holds(const Library& lib, std::byte* memory, double scale) const {
    std::vector<float> plain_values(values->rows.size() * values->columns.size());
    reorder(lib, argument->layout, memory, argument->plain, plain_values.data());
    return values->equals(plain_values, argument->type, scale);
  }
};

}  // namespace

bool keeps_to_own_memory(const Library& lib, const KernelTrial& trial,
                         std::int64_t scratchpad_bytes,
                         const std::function<void(const TrialMemory&)>& run) {
  using enum KernelTrial::Pass;
  const Values values = exact_values(trial);
  const bool bias_written = trial.pass == kBackwardWeights;
  const std::array<TrialPart, 4> parts{
      {{&trial.src, &values.src, trial.pass == kBackwardData},
       {&trial.weights, &values.weights, trial.pass == kBackwardWeights},
       {&trial.dst, &values.dst, trial.pass == kForward},
       {trial.bias ? &*trial.bias : nullptr, &values.bias, bias_written}}};
  std::vector<std::int64_t> sizes;
  sizes.reserve(parts.size() + 1);
  for (const TrialPart& part : parts)
    sizes.push_back(part.argument ? static_cast<std::int64_t>(part.argument->layout.get_size())
                                  : 0);
  sizes.push_back(scratchpad_bytes);
  GuardedMemory guarded_memory(sizes);
  TrialMemory at{};
  for (std::size_t i = 0; i < at.size(); ++i)
    at[i] = i == 3 && !trial.bias ? nullptr : guarded_memory.part(i);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].argument && !parts[i].written) parts[i].store(lib, at[i]);
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].argument && parts[i].written) {
        guarded_memory.poison(i);
        if (trial.adds) parts[i].store(lib, at[i]);
      }
    guarded_memory.poison(parts.size());
    run(at);
    if (!guarded_memory.zones_are_untouched()) return false;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].argument && !parts[i].holds(lib, at[i], parts[i].written && trial.adds ? 2 : 1))
        return false;
  }
  return true;
}

namespace {

// Kernels for matrix units are tried: those of oneDNN 2.6.3 and 3.x read channels after the last,
// and some write elsewhere where strides exceed the kernel. All others pass the trials for every
// form that the tests have, on each instruction set, so they are used without a trial.
constexpr std::string_view kMatrixUnit = "amx";

const TriedKernels* tried_kernels = nullptr;  // set by a test

}  // namespace

TriedKernels::TriedKernels(std::string part, Judge judge)
    : part_(std::move(part)), judge_(std::move(judge)), before_(tried_kernels) {
  tried_kernels = this;
}
TriedKernels::~TriedKernels() { tried_kernels = before_; }

bool TriedKernels::may_use(std::string_view implementation, int number, std::string_view trial,
                           std::int64_t bytes, const std::function<bool()>& try_it) {
  static std::map<std::string, bool> verdicts;
  static std::mutex mutex;
  // Larger kernels are assumed to be right while memory is only counted: a trial would take much.
  constexpr std::int64_t kMostCounted = 1 << 26;
  const TriedKernels* const test = tried_kernels;
  const std::string_view part = test ? std::string_view(test->part_) : kMatrixUnit;
  if (implementation.find(part) == std::string_view::npos) return true;
  const std::lock_guard lock(mutex);
  const std::string key = fmt::format("{} {} of {} with {} bytes on {} threads", number,
                                      implementation, trial, bytes, omp_get_max_threads());
  auto found = verdicts.find(key);
  if (found == verdicts.end()) {
    if (CountedMemory::on() && bytes > kMostCounted) return true;
    found = verdicts.emplace(key, try_it()).first;
  }
  return test ? test->judge_(implementation, trial, found->second) : found->second;
}

}  // namespace halomesh::onednn
