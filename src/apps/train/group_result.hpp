// SPDX-License-Identifier: Apache-2.0
// The outcome of one of several training runs of a job, and its form in files. Must not depend on
// MPI.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "score.hpp"

namespace halomesh {

/// The outcome of one run.
struct GroupResult {
  std::string end;          ///< name_of(TrainingEnd), or "failed"
  std::string error, hint;  ///< for "diverged" and "failed"
  bool is_usage = false;    ///< failed with a UsageError
  std::int64_t steps = 0, epochs = 0;
  std::optional<double> score;  ///< the score of the last validation
  Score kind = Score::kMae;     ///< the meaning of `score`
  double seconds = 0;           ///< from setup to the end, in the job that trained it last
  bool trained = false;         ///< false: an earlier job had completed it

  bool is_complete() const { return end == "done" || end == "target"; }
  bool has_failed() const { return end == "diverged" || end == "failed"; }
};
nlohmann::ordered_json to_json(const GroupResult& result);
/// Parses a result. Throws nlohmann::json::exception if `json` is none.
GroupResult group_result_of(const nlohmann::ordered_json& json);

}  // namespace halomesh
