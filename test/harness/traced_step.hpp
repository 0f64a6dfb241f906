// SPDX-License-Identifier: Apache-2.0
// Made-up timelines of any number of ranks: steps of a network of the size of CosmoFlow.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rng.hpp"
#include "runtime/trace/timeline_text.hpp"

namespace halomesh::test {

/// The timeline of rank `rank` of a mesh whose parts form a ring, each exchanging messages with its
/// two neighbours: per step 86 phases, 26 pairs of message ends and 6 sums, of varying lengths.
inline TimelineRank made_up_rank(int rank, std::int64_t parts, std::int64_t first_step,
                                 std::int64_t steps) {
  using Kind = TimelineEvent::Kind;
  constexpr std::array<std::string_view, 12> kLayers = {"conv1", "conv2",   "conv3",    "conv4",
                                                        "conv5", "fc1",     "act_fc1",  "dropout1",
                                                        "fc2",   "act_fc2", "dropout2", "fc3"};
  constexpr std::int64_t kStepNs = 80'000'000, kPhaseNs = 900'000;
  TimelineRank made{rank, "node" + std::to_string(rank / 4), {}, rank == 0, 64};
  const CounterRng random(9, RandomUse::kSynth, static_cast<std::uint32_t>(rank));
  std::uint64_t drawn = 0;
  const auto part = static_cast<int>(rank % parts), count = static_cast<int>(parts);
  for (std::int64_t step = first_step; step < first_step + steps; ++step) {
    const std::int64_t begin = (step - first_step) * kStepNs;
    std::int64_t at = begin;
    const auto length = [&](std::int64_t most) {
      return 1 +
             static_cast<std::int64_t>(random.uniform_double(drawn++) * static_cast<double>(most));
    };
    const auto phase = [&](Phase what, std::string_view layer) {
      const std::int64_t end = at + length(kPhaseNs);
      made.events.push_back({Kind::kPhase, what, 0, 0, layer, at, end, 0, 0, step});
      at = end + length(2000);
    };
    phase(Phase::kInputWait, "");
    for (const bool forward : {true, false})
      for (std::size_t l = 0; l < kLayers.size(); ++l) {
        phase(Phase::kLoadParameters, kLayers[l]);
        phase(forward ? Phase::kForward : Phase::kBackwardData, kLayers[l]);
        if (!forward) phase(Phase::kBackwardParameters, kLayers[l]);
        if (l >= 6 || parts < 3) continue;
        const auto tag = static_cast<std::int64_t>(l) + (forward ? 0 : 6);
        const auto message = [&](Kind kind, int peer, std::int64_t from, std::int64_t to) {
          made.events.push_back({kind, Phase::kOther, peer, tag, kLayers[l], from, to, to - 1,
                                 100'000 + 1000 * tag, step});
        };
        // Every rank packs in the first tenth of a time slot and receives in the last.
        const std::int64_t slot = begin + 6'000'000 * tag;
        message(Kind::kSend, (part + 1) % count, slot, slot + length(1000));
        message(Kind::kSend, (part + count - 1) % count, slot + 2000, slot + 2000 + length(1000));
        message(Kind::kReceive, (part + 1) % count, slot + 5'000'000,
                slot + 5'000'000 + length(900));
        message(Kind::kReceive, (part + count - 1) % count, slot + 5'001'000,
                slot + 5'001'000 + length(900));
        phase(forward ? Phase::kHaloPack : Phase::kHaloGradientPack, kLayers[l]);
        phase(forward ? Phase::kHaloWait : Phase::kHaloGradientWait, kLayers[l]);
      }
    for (std::int64_t bucket = 0; bucket < 6; ++bucket)
      made.events.push_back({Kind::kSum,
                             Phase::kOther,
                             0,
                             bucket,
                             {},
                             at + 1000 * bucket,
                             at + length(kPhaseNs) + 6000,
                             0,
                             4 << 20,
                             step});
    phase(Phase::kReductionWait, "");
    made.events.push_back({Kind::kPhase, Phase::kStep, 0, 0, {}, begin, at, 0, 0, step});
    made.events.push_back(
        {Kind::kLoad, Phase::kOther, 0, step, "read", begin + 100, begin + kStepNs / 2, 0, 0, 0});
  }
  return made;
}

/// A whole trace as the ranks write it.
inline std::string made_up_opening(const std::vector<int>& ranks) {
  std::string list;
  for (const int rank : ranks) list += (list.empty() ? "" : ",") + std::to_string(rank);
  const std::string first = std::to_string(ranks.front());
  return R"({"displayTimeUnit":"ms","otherData":{"clock_error_us":0,"traced_ranks":[)" + list +
         R"(]},"traceEvents":[{"ph":"M","name":"process_sort_index","pid":)" + first +
         R"(,"tid":0,"args":{"sort_index":)" + first + "}}";
}

}  // namespace halomesh::test
