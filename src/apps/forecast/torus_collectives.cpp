// SPDX-License-Identifier: Apache-2.0
// Collectives on a torus: see torus_collectives.hpp.
#include "src/apps/forecast/torus_collectives.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

#include "error.hpp"
#include "src/apps/forecast/csv_lines.hpp"

namespace halomesh {
namespace {

using Shape3 = std::vector<std::int64_t>;
using Terms = std::array<double, 3>;
// The factors of a, b, c in the time of one measurement, and the known rest.
struct Row {
  Terms factors{};
  double known = 0, seconds = 0;
};

double nodes_of(const Shape3& shape) {
  double nodes = 1;
  for (const std::int64_t extent : shape) nodes *= static_cast<double>(extent);
  return nodes;
}
double rounds(const Shape3& shape) { return std::log2(nodes_of(shape)); }
// The links of recursive doubling along one axis after the other: 1 + 2 + 4 + ...
double hops(const Shape3& shape) {
  double sum = 0;
  for (const std::int64_t extent : shape) sum += static_cast<double>(extent - 1);
  return sum;
}
double radius(const Shape3& shape) {
  double sum = 0;
  for (const std::int64_t extent : shape) {
    const std::int64_t hops = extent / 2;
    sum += static_cast<double>(hops);
  }
  return sum;
}
double of_three_axes(const Shape3& shape) { return 3 / static_cast<double>(shape.size()); }

Terms barrier_factors(const Shape3& shape) { return {1, rounds(shape), 0}; }
Terms doubling_factors(const Shape3& shape, double n) {
  return {rounds(shape), n * rounds(shape), 0};
}
Terms tree_factors(const Shape3& shape, double n) {
  const double segment = n <= 384 * 1024.0 ? 4096 : n <= 6 * 0x1p20 ? 16384 : 65536;
  const double stages = 2 * radius(shape);
  return {stages, stages * std::min(segment, n), n * of_three_axes(shape)};
}
Terms gather_factors(const Shape3& shape, double n) {
  const double nodes = nodes_of(shape);
  return {rounds(shape), n * (nodes - 1) / nodes, 0};
}
Terms ring_factors(const Shape3& shape, double n) {
  return {1, nodes_of(shape), n * of_three_axes(shape)};
}

constexpr double kAny = 1e18;

/// A kind of measurements, of `least` to `most` bytes.
struct MeasuredKind {
  Collective collective;
  std::string algorithm;
  double least, most;
};

using MakeRow = std::function<Row(const MeasuredCollective&)>;

std::vector<Row> make_rows(const MeasuredKind& kind,
                           const std::vector<MeasuredCollective>& measured, const MakeRow& row) {
  std::vector<Row> rows;
  for (const MeasuredCollective& m : measured) {
    if (m.collective != kind.collective || m.algorithm != kind.algorithm || m.bytes < kind.least ||
        m.bytes > kind.most)
      continue;
    rows.push_back(row(m));
    rows.back().seconds = m.seconds;
  }
  return rows;
}

double dot(const Terms& a, const Terms& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// Fits least squares of relative errors over the terms that occur, none of them negative.
Terms fit(const std::vector<Row>& rows, const char* algorithm) {
  std::vector<std::size_t> active;
  for (std::size_t i = 0; i < 3; ++i)
    if (std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.factors[i] != 0; }))
      active.push_back(i);
  require(!active.empty() && rows.size() >= active.size(),
          fmt::format("{} measurements of {} are too few", rows.size(), algorithm),
          "measure more sizes and node counts");
  for (;;) {
    const std::size_t k = active.size();
    std::array<std::array<double, 4>, 3> m{};
    for (const Row& row : rows)
      for (std::size_t i = 0; i < k; ++i) {
        const double left = row.factors[active[i]] / row.seconds;
        for (std::size_t j = 0; j < k; ++j) m[i][j] += left * row.factors[active[j]] / row.seconds;
        m[i][3] += left * (row.seconds - row.known) / row.seconds;
      }
    for (std::size_t i = 0; i < k; ++i)
      for (std::size_t r = 0; r < k; ++r) {
        if (r == i) continue;
        const double factor = m[r][i] / m[i][i];
        for (std::size_t c = 0; c < 4; ++c) m[r][c] -= factor * m[i][c];
      }
    Terms terms{};
    std::optional<std::size_t> negative;
    for (std::size_t i = 0; i < k; ++i) {
      terms[active[i]] = m[i][3] / m[i][i];
      if (terms[active[i]] < 0) negative = i;
    }
    if (!negative || k == 1) return terms;
    active.erase(active.begin() + static_cast<std::ptrdiff_t>(*negative));
  }
}

/// The constants a and b of halving, where `rest` is the time without a. Its maximum makes the time
/// nonlinear in b, so b is searched, with a fit of a for each.
std::pair<double, double> fit_halving(
    const std::vector<MeasuredCollective>& measured,
    const std::function<double(const MeasuredCollective&, double b)>& rest) {
  double least = -1;
  std::pair<double, double> best;
  for (double b = 1e-11; b < 1e-8; b *= 1.01) {
    const auto rows = make_rows({Collective::kReduceScatter, "recursive-halving", 0, kAny},
                                measured, [&](const MeasuredCollective& m) {
                                  return Row{{rounds(m.shape), 0, 0}, rest(m, b), 0};
                                });
    const double a = std::max(0.0, fit(rows, "reduce-scatter by halving")[0]);
    double error = 0;
    for (const Row& row : rows)
      error += std::pow((a * row.factors[0] + row.known) / row.seconds - 1, 2);
    if (least >= 0 && error >= least) continue;
    least = error;
    best = {a, b};
  }
  return best;
}

}  // namespace

std::int64_t MeasuredCollective::nodes() const {
  return static_cast<std::int64_t>(nodes_of(shape));
}

std::vector<MeasuredCollective> read_collectives(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string header;
  while (std::getline(in, header) && (header.empty() || header[0] == '#')) {
  }
  std::vector<double> sizes;
  std::istringstream names(header);
  for (std::string cell; std::getline(names, cell, ',');) sizes.push_back(std::atof(cell.c_str()));
  std::vector<MeasuredCollective> all;
  for (const CsvLine& line : read_csv(file)) {
    MeasuredCollective m;
    const std::string& name = line.cells.at(3);
    if (name == "reduce_scatter")
      m.collective = Collective::kReduceScatter;
    else if (name == "allgather")
      m.collective = Collective::kAllgather;
    else if (name != "allreduce")
      continue;
    m.algorithm = line.cells[4];
    if (m.algorithm.starts_with("default-")) m.algorithm = m.algorithm.substr(8);
    std::istringstream extents(line.cells[2]);
    for (std::string e; std::getline(extents, e, 'x');) m.shape.push_back(std::atoll(e.c_str()));
    if (m.nodes() != static_cast<std::int64_t>(line.number(1, 1)))
      throw UsageError(fmt::format("{}: shape {} does not hold {} nodes", line.where, line.cells[2],
                                   line.cells[1]),
                       "correct the shape");
    for (std::size_t i = 5; i < line.cells.size(); ++i) {
      if (line.cells[i].empty()) continue;
      m.bytes = sizes.at(i);
      m.seconds = line.number(i, 1e-6) * 1e-6;
      all.push_back(m);
    }
  }
  return all;
}

TorusCollectives::TorusCollectives(const std::vector<MeasuredCollective>& measured, double hop_s,
                                   double link_bytes_per_s)
    : hop_s_(hop_s), link_(link_bytes_per_s) {
  const auto rows_of = [&](Collective collective, const std::string& algorithm, double least,
                           double most, const MakeRow& row) {
    return make_rows({collective, algorithm, least, most}, measured, row);
  };
  barrier_ = fit(rows_of(Collective::kAllreduce, "default", 0, 8,
                         [](const auto& m) {
                           return Row{barrier_factors(m.shape), 0, 0};
                         }),
                 "hardware allreduce");
  doubling_ =
      fit(rows_of(Collective::kAllreduce, "recursive_doubling", 32, 16384,
                  [&](const auto& m) {
                    return Row{doubling_factors(m.shape, m.bytes), hop_s_ * hops(m.shape), 0};
                  }),
          "recursive doubling");
  trees_ = fit(rows_of(Collective::kAllreduce, "trix3", 131072, kAny,
                       [](const auto& m) {
                         return Row{tree_factors(m.shape, m.bytes), 0, 0};
                       }),
               "pipelined trees");
  gather_ = fit(rows_of(Collective::kAllgather, "recursive-doubling", 0, 1048576,
                        [&](const auto& m) {
                          return Row{gather_factors(m.shape, m.bytes), hop_s_ * hops(m.shape), 0};
                        }),
                "all-gather by doubling");
  rings_ = fit(rows_of(Collective::kAllgather, "3dtorus", 0, kAny,
                       [](const auto& m) {
                         return Row{ring_factors(m.shape, m.bytes), 0, 0};
                       }),
               "all-gather by rings");
  std::tie(halving_a_, halving_b_) = fit_halving(
      measured,
      [&](const MeasuredCollective& m, double b) { return halving(m.shape, m.bytes, 0, b); });
}

double TorusCollectives::halving(const Shape3& shape, double bytes, double a, double b) const {
  double sum = 0;
  for (const std::int64_t extent : shape)
    for (std::int64_t d = 1; d < extent; d *= 2) {
      bytes /= 2;
      const auto distance = static_cast<double>(d);
      sum += a + hop_s_ * distance + bytes * std::max(b, distance / link_);
    }
  return sum;
}

double TorusCollectives::seconds(Collective collective, const Shape3& shape, double bytes) const {
  if (collective == Collective::kReduceScatter)
    return halving(shape, bytes, halving_a_, halving_b_);
  if (collective == Collective::kAllgather)
    return std::min(dot(gather_, gather_factors(shape, bytes)) + hop_s_ * hops(shape),
                    dot(rings_, ring_factors(shape, bytes)));
  if (bytes <= 8) return dot(barrier_, barrier_factors(shape));
  if (bytes <= 96 * 1024.0)
    return dot(doubling_, doubling_factors(shape, bytes)) + hop_s_ * hops(shape);
  return dot(trees_, tree_factors(shape, bytes));
}

}  // namespace halomesh
