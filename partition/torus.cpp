// SPDX-License-Identifier: Apache-2.0
// Distances on a torus: see torus.hpp.
#include "partition/torus.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "error.hpp"

namespace halomesh {
namespace {

constexpr int kMostNodes = 1 << 24;

// Reads "4x4x1".
std::optional<std::array<int, 3>> parse_extents(std::string_view text) {
  std::array<int, 3> extents{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::size_t end = axis < 2 ? text.find('x') : text.size();
    if (end == std::string_view::npos) return std::nullopt;
    const auto [at, error] = std::from_chars(text.data(), text.data() + end, extents[axis]);
    if (error != std::errc{} || at != text.data() + end || extents[axis] < 1 ||
        extents[axis] > kMostNodes)
      return std::nullopt;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return extents;
}

}  // namespace

std::array<int, 3> Torus::position(int node) const {
  std::array<int, 3> at{};
  int inside = node % (block[0] * block[1] * block[2]),
      of_blocks = node / (block[0] * block[1] * block[2]);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const int blocks = extents[axis] / block[axis];
    at[axis] = of_blocks % blocks * block[axis] + inside % block[axis];
    of_blocks /= blocks;
    inside /= block[axis];
  }
  return at;
}

std::array<int, 3> Torus::hops(int from, int to) const {
  std::array<int, 3> a = position(from);
  const std::array<int, 3> b = position(to);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const int ahead = std::abs(b[axis] - a[axis]);
    a[axis] = std::min(ahead, extents[axis] - ahead);
  }
  return a;
}

Torus parse_torus(const std::string& text, const std::string& source) {
  if (text.empty()) return {};
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("{}={}: {}", source, text, why),
                     "give the extents of the job's nodes, e.g. 16x16x32, or with the blocks that "
                     "ranks fill one after the other, e.g. 16x16x32/4x4x1");
  };
  const std::size_t slash = text.find('/');
  const auto extents = parse_extents(std::string_view(text).substr(0, slash));
  if (!extents) refuse("the extents are not three whole numbers of at least 1");
  Torus torus{*extents, {1, 1, 1}};
  if (double(torus.extents[0]) * torus.extents[1] * torus.extents[2] > kMostNodes)
    refuse("there are too many nodes");
  if (slash == std::string::npos) return torus;
  const auto block = parse_extents(std::string_view(text).substr(slash + 1));
  if (!block) refuse("the extents of a block are not three whole numbers of at least 1");
  torus.block = *block;
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (torus.extents[axis] % torus.block[axis] != 0)
      refuse("the blocks do not fill the torus evenly");
  return torus;
}

}  // namespace halomesh
