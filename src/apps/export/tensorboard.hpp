// SPDX-License-Identifier: Apache-2.0
// The records of a run as TensorBoard's event files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/apps/records/run_files.hpp"

namespace halomesh {

/// One value of one curve.
struct Scalar {
  std::string tag;
  float value = 0;
};

/// What an event holds besides its time: scalars, or the start of a session without any.
struct TensorboardEvent {
  double wall_time = 0;  ///< Unix seconds
  std::int64_t step = 0;
  std::vector<Scalar> scalars;
};

/// The events of one file. TensorBoard drops what earlier files hold at or after `first_step`.
struct TensorboardSession {
  std::int64_t first_step = 0;
  std::vector<TensorboardEvent> events;
};

/// The curves of a run: train/loss, train/lr, eval/mae (or eval/dice, eval/iou), eval/loss,
/// speed/samples_per_s (where run.json has the batch) and time/{compute,halo,reduction,input},
/// seconds per step. A session begins with the run and wherever steps are missing because a run was
/// resumed. Values that were not finite are left out. Lines without a time count as written as long
/// after the line before as they took.
std::vector<TensorboardSession> tensorboard_sessions(const RunFiles& run);

/// Writes one file per session to `directory`, which is created, and returns their paths. The names
/// depend only on when the run began: a repeated export replaces the files of the one before.
/// Throws Error naming the file.
std::vector<std::filesystem::path> write_tensorboard(
    const std::vector<TensorboardSession>& sessions, const std::filesystem::path& directory);

}  // namespace halomesh
