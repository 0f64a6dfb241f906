// SPDX-License-Identifier: Apache-2.0
// How one of several training runs of a job ended, and its form in files. Must not depend on MPI.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "score.hpp"

namespace halomesh {

/// How one run ended.
struct GroupResult {
  std::string end;          ///< see name_of(TrainingEnd), or "failed"
  std::string error, hint;  ///< of "diverged" and "failed"
  bool is_usage = false;    ///< failed with a UsageError
  std::int64_t steps = 0, epochs = 0;
  std::optional<double> score;  ///< of the last validation
  Score kind = Score::kMae;     ///< what it is
  double seconds = 0;           ///< from setting up to the end, of the job that trained it last
  bool trained = false;         ///< false: an earlier job had completed it

  bool is_complete() const { return end == "done" || end == "target"; }
  bool has_failed() const { return end == "diverged" || end == "failed"; }
};
nlohmann::ordered_json to_json(const GroupResult& result);
/// Throws nlohmann::json::exception for what is none.
GroupResult group_result_of(const nlohmann::ordered_json& json);

}  // namespace halomesh
