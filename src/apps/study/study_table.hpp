// SPDX-License-Identifier: Apache-2.0
// The results of a study's cells: rows over seeds, as text and as JSON.
// Must not depend on MPI.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/apps/study/study_file.hpp"
#include "src/apps/train/group_result.hpp"

namespace halomesh {

/// One cell that has ended.
struct StudyOutcome {
  StudyCell cell;
  GroupResult result;
  /// Counts up to the first validation that reached the target; empty if none did.
  std::optional<std::int64_t> epochs_to_target, samples_to_target;
};

/// Reads the results that training has left in `directory`; empty if it has not ended. `target` 0:
/// none. Throws Error for a damaged file.
std::optional<StudyOutcome> read_outcome(const StudyCell& cell,
                                         const std::filesystem::path& directory, double target);

/// Mean and range; count 0 without values.
struct Range3 {
  std::int64_t count = 0;
  double mean = 0, min = 0, max = 0;
  void add(double value);
};

/// The cells that differ by their seeds alone.
struct StudyRow {
  StudyValues varied;
  std::int64_t cells = 0, diverged = 0, failed = 0;
  Range3 epochs, samples;    ///< to the target, over the cells that reached it
  Range3 score;              ///< the final scores, without cells that diverged or failed
  Score kind = Score::kMae;  ///< the meaning of the scores
  Range3 seconds;
};
/// The kind of score by which the cells are judged.
Score score_of(const std::vector<StudyRow>& rows);
std::vector<StudyRow> rows_of(const std::vector<StudyOutcome>& outcomes);

void print_rows(std::ostream& out, const std::vector<StudyRow>& rows, double target);
/// The JSON object {"target", "cells": [...], "rows": [...]}.
nlohmann::ordered_json study_json(const std::vector<StudyOutcome>& outcomes, double target);

}  // namespace halomesh
