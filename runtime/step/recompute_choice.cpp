// SPDX-License-Identifier: Apache-2.0
// See recompute_choice.hpp.
#include "runtime/step/recompute_choice.hpp"

#include <algorithm>
#include <array>

#include "error.hpp"

namespace halomesh {
namespace {

/// Predictions are at most 3 % below the memory of processes; the rest is for readers of files.
constexpr double kMargin = 1.05;

double with_margin(std::int64_t bytes) { return kMargin * static_cast<double>(bytes); }

bool fits(std::int64_t bytes, std::int64_t available) {
  return with_margin(bytes) <= static_cast<double>(available);
}

/// The share of the available memory that the ranks would take.
double share_of(const RecomputeChoice& choice) {
  return with_margin(choice.need.kept) /
         static_cast<double>(std::max<std::int64_t>(choice.available, 1));
}

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.0f} MB", 1e-6 * static_cast<double>(bytes));
}

}  // namespace

bool should_recompute(const MemoryNeed& need, std::int64_t available) {
  return !fits(need.kept, available) && need.recomputed < need.kept;
}

RecomputeChoice choose_recompute(const Comm& world, const MemoryNeed& need,
                                 const MemoryRoom& room) {
  const Comm& node = world.node();
  RecomputeChoice choice;
  choice.need = {node.sum(need.kept), node.sum(need.recomputed)};
  choice.available = -node.max(-room.node);
  choice.ranks = node.size();
  const RecomputeChoice alone{false, need, room.process, 1};
  if (share_of(alone) > share_of(choice)) choice = alone;
  // All ranks take the numbers of the first rank among those with the least memory left.
  const double tightest = world.max(share_of(choice));
  const std::int64_t first = -world.max(share_of(choice) == tightest ? -std::int64_t{world.rank()}
                                                                     : -std::int64_t{world.size()});
  std::array<std::int64_t, 4> numbers{};
  if (world.rank() == first)
    numbers = {choice.need.kept, choice.need.recomputed, choice.available, choice.ranks};
  world.sum(numbers);
  choice = {false, {numbers[0], numbers[1]}, numbers[2], numbers[3]};
  choice.recomputes = should_recompute(choice.need, choice.available);
  return choice;
}

std::string to_text(const RecomputeChoice& choice) {
  const bool alone = choice.ranks == 1;
  const std::string who =
      alone ? std::string("a process") : fmt::format("the {} ranks of a node", choice.ranks);
  const char* const needs = choice.recomputes ? "would need" : alone ? "needs" : "need";
  const bool is_close = choice.recomputes && choice.need.kept <= choice.available;
  std::string text =
      fmt::format("--recompute auto: {}: {} {} another {}, {} are available{}",
                  choice.recomputes ? "on" : "off", who, needs, megabytes(choice.need.kept),
                  megabytes(choice.available), is_close ? " (too close for a prediction)" : "");
  if (choice.recomputes)
    text += fmt::format(
        "; recomputing, {} {}{}", alone ? "it needs" : "they need",
        megabytes(choice.need.recomputed),
        fits(choice.need.recomputed, choice.available) ? "" : ", which may not fit either");
  else if (!fits(choice.need.kept, choice.available))
    text += ", and recomputing would save nothing";
  return text;
}

}  // namespace halomesh
