// SPDX-License-Identifier: Apache-2.0
// Compares the settings of a training run that resumes with those that its checkpoint records.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/train/training_state.hpp"
#include "setting_role.hpp"

namespace halomesh {

/// The role of an option of this name, or of the number of `training-samples`: kNetwork must stay
/// as it was recorded, kTraining may change with --allow-changes, the others are not compared.
struct ResumeRule {
  std::string name;
  SettingRole role;
};

/// Settings by the names of the rules.
using Settings = std::map<std::string, std::string>;

/// The settings that differ between a checkpoint and the run that resumes from it.
struct SettingChanges {
  std::vector<std::string> refused;     ///< kNetwork, in the form "batch 4 -> 2"
  std::vector<std::string> allowed;     ///< kTraining, in this form
  std::vector<std::string> unrecorded;  ///< missing from an older checkpoint
};

/// Compares settings by value, not by text: "0.50" equals "0.5".
SettingChanges compare_settings(const Settings& recorded, const Settings& now,
                                std::span<const ResumeRule> rules);

/// The settings of a run that are compared when it resumes.
Settings settings_of(const TrainingState& state);

/// Throws Error if a run with the settings `now` must not resume from the checkpoint of `recorded`;
/// otherwise returns the warnings to print.
std::vector<std::string> check_resumption(const TrainingState& recorded, const TrainingState& now,
                                          std::span<const ResumeRule> rules, bool allow_changes);

}  // namespace halomesh
