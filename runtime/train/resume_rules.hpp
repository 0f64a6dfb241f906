// SPDX-License-Identifier: Apache-2.0
// What may change when a training resumes: one rule for each of its settings.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halomesh {

enum class ChangeRule {
  kNever,    ///< the parameters or the position in the data would mean something else
  kAllowed,  ///< the curve changes: only with --allow-changes
  kFree      ///< the curve stays the same up to rounding, or only its end changes
};

/// The name is that of the option; `training-samples` is the number of them.
struct ResumeRule {
  std::string_view name;
  ChangeRule rule;
};

/// The rules of all settings of a training. Those that are not kFree are recorded in checkpoints.
std::span<const ResumeRule> resume_rules();

/// The rules as the paragraphs of a help page.
std::string describe_resume_rules();

/// Settings by the names of resume_rules().
using Settings = std::map<std::string, std::string>;

/// The settings that differ between a checkpoint and the run that resumes from it.
struct SettingChanges {
  std::vector<std::string> refused;     ///< "batch 4 -> 2": kNever
  std::vector<std::string> allowed;     ///< likewise: kAllowed
  std::vector<std::string> unrecorded;  ///< names that the checkpoint, an older one, does not have
};

/// Compares what kNever and kAllowed settings stand for, not their texts: "0.50" equals "0.5".
SettingChanges compare_settings(const Settings& recorded, const Settings& now);

}  // namespace halomesh
