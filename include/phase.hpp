// SPDX-License-Identifier: Apache-2.0
// The phases of a training step, that is, the activities of a rank that traces record, with their
// names and kinds of time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace halomesh {

/// The part of a step that an interval belongs to. Packing covers everything that a rank does for
/// an exchange besides waiting: copying into and out of messages, and starting them.
enum class Phase : std::uint8_t {
  kStep,  ///< a whole step; contains all others
  kInputWait,
  kLoadParameters,
  kForward,
  kHaloPack,
  kHaloWait,
  kPartialSumPack,
  kPartialSumWait,
  kLoss,
  kBackwardData,
  kBackwardParameters,
  kHaloGradientPack,
  kHaloGradientWait,
  kReductionStart,
  kReductionWait,
  kOptimizer,
  kOther,  ///< the rest of a step
  kEvaluation,
  kCheckpoint
};

enum class PhaseKind : std::uint8_t {
  kCompute,
  kPacking,
  kHaloWait,
  kReductionWait,
  kInputWait,
  kOptimizer,
  kOther
};

struct PhaseEntry {
  Phase phase;
  const char* name;
  PhaseKind kind;
};

/// Every phase, in the order of the enumeration.
inline constexpr std::array<PhaseEntry, 19> kPhases = {{
    {Phase::kStep, "step", PhaseKind::kOther},
    {Phase::kInputWait, "input wait", PhaseKind::kInputWait},
    {Phase::kLoadParameters, "load parameters", PhaseKind::kCompute},
    {Phase::kForward, "forward", PhaseKind::kCompute},
    {Phase::kHaloPack, "halo pack", PhaseKind::kPacking},
    {Phase::kHaloWait, "halo wait", PhaseKind::kHaloWait},
    {Phase::kPartialSumPack, "partial sum pack", PhaseKind::kPacking},
    {Phase::kPartialSumWait, "partial sum wait", PhaseKind::kHaloWait},
    {Phase::kLoss, "loss", PhaseKind::kCompute},
    {Phase::kBackwardData, "backward data", PhaseKind::kCompute},
    {Phase::kBackwardParameters, "backward parameters", PhaseKind::kCompute},
    {Phase::kHaloGradientPack, "halo gradient pack", PhaseKind::kPacking},
    {Phase::kHaloGradientWait, "halo gradient wait", PhaseKind::kHaloWait},
    {Phase::kReductionStart, "reduction start", PhaseKind::kPacking},
    {Phase::kReductionWait, "reduction wait", PhaseKind::kReductionWait},
    {Phase::kOptimizer, "optimizer", PhaseKind::kOptimizer},
    {Phase::kOther, "other", PhaseKind::kOther},
    {Phase::kEvaluation, "evaluation", PhaseKind::kOther},
    {Phase::kCheckpoint, "checkpoint", PhaseKind::kOther},
}};
static_assert([] {
  for (std::size_t i = 0; i < kPhases.size(); ++i)
    if (static_cast<std::size_t>(kPhases[i].phase) != i) return false;
  return kPhases.back().phase == Phase::kCheckpoint;
}());

constexpr const char* name_of(Phase phase) { return kPhases[static_cast<std::size_t>(phase)].name; }
constexpr PhaseKind kind_of(Phase phase) { return kPhases[static_cast<std::size_t>(phase)].kind; }

inline constexpr std::size_t kPhaseKinds = 7;
constexpr const char* name_of(PhaseKind kind) {
  constexpr std::array<const char*, kPhaseKinds> kNames = {
      "compute", "packing", "halo wait", "reduction wait", "input wait", "optimizer", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace halomesh
