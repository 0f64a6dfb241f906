// SPDX-License-Identifier: Apache-2.0
// Which steps and ranks a trace shows: see traced_ranks.hpp.
#include "runtime/trace/traced_ranks.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "counted.hpp"
#include "error.hpp"
#include "narrow.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kAllRanks = 64, kParts = 32, kReplicas = 16, kMostSteps = 1000;

/// Parses a whole number; -1 for any other text.
std::int64_t whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return -1;
  return value;
}

}  // namespace

TraceSteps parse_trace_steps(const std::string& text) {
  const std::string_view all = text;
  const std::size_t plus = std::min(all.find('+'), all.size());
  const auto first = whole_number(all.substr(0, plus));
  const auto count = plus < all.size() ? whole_number(all.substr(plus + 1)) : -1;
  if (first < 1 || count < 1 || count > kMostSteps)
    throw UsageError(fmt::format("--trace-steps {}: must be FIRST+COUNT, with FIRST of at least 1 "
                                 "and COUNT from 1 to {}",
                                 text, kMostSteps),
                     "for example 5+3: steps 5, 6 and 7 of this run");
  return {first, count};
}

std::vector<int> parse_trace_ranks(const std::string& text, std::int64_t ranks) {
  std::set<int> chosen;
  const auto add = [&](std::int64_t first, std::int64_t last) {
    if (last >= ranks)
      throw UsageError(fmt::format("--trace-ranks {}: there is no rank {}: the run has {}", text,
                                   last, counted(ranks, "rank")),
                       fmt::format("use ranks from 0 to {}", ranks - 1));
    for (std::int64_t rank = first; rank <= last; ++rank) chosen.insert(narrow<int>(rank));
  };
  bool more = text != "all";
  if (!more) add(0, ranks - 1);
  std::string_view left = text;
  while (more) {
    const std::size_t comma = std::min(left.find(','), left.size());
    const std::string_view item = left.substr(0, comma);
    const std::size_t dash = std::min(item.find('-'), item.size());
    const auto first = whole_number(item.substr(0, dash));
    const auto last = dash < item.size() ? whole_number(item.substr(dash + 1)) : first;
    if (first < 0 || first > last)
      throw UsageError(
          fmt::format("--trace-ranks {}: \"{}\" is neither a rank nor a range of ranks", text,
                      item),
          "use ranks and ranges such as 0-3,8, or all");
    add(first, last);
    more = comma < left.size();
    left.remove_prefix(std::min(comma + 1, left.size()));
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<int> default_trace_ranks(const MeshShape& mesh) {
  if (mesh.ranks() <= kAllRanks) return parse_trace_ranks("all", mesh.ranks());
  std::set<int> chosen;
  for (std::int64_t part = 0; part < std::min(kParts, mesh.parts.count()); ++part)
    chosen.insert(narrow<int>(mesh.rank_of(0, part)));
  const auto last = static_cast<double>(mesh.replicas - 1);
  for (std::int64_t i = 1; i <= kReplicas && last >= 1; ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(kReplicas);
    chosen.insert(narrow<int>(mesh.rank_of(std::llround(std::pow(last, exponent)), 0)));
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace halomesh
