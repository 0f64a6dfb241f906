// SPDX-License-Identifier: Apache-2.0
// The role of a setting in a training run. It decides whether a run that resumes may change it,
// whether checkpoints record it, and whether results with another value can stand side by side.
#pragma once

#include <cstdint>

namespace halomesh {

enum class SettingRole : std::uint8_t {
  kNetwork,    ///< the parameters, or the position in the data, belong to one value: never changes
  kTraining,   ///< the training curve depends on it: changes only with --allow-changes
  kComputing,  ///< how the curve is computed, or where it ends: the curve stays the same up to
               ///< rounding. Not stored in checkpoints
  kFree        ///< no result depends on it. Not stored in checkpoints
};

}  // namespace halomesh
