// SPDX-License-Identifier: Apache-2.0
// The settings that may change when a training run resumes: one rule per setting.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halomesh {

enum class ChangeRule {
  kNever,    ///< parameters or the position in the data would be invalid
  kAllowed,  ///< the curve changes: only with --allow-changes
  kFree      ///< the curve is unchanged up to rounding, or only its end changes
};

/// The rule for an option of this name, or for the number of `training-samples`.
struct ResumeRule {
  std::string_view name;
  ChangeRule rule;
};

/// The rules for all settings of a training run except the network's options. Checkpoints record
/// all settings that are not kFree.
std::span<const ResumeRule> resume_rules();

/// Describes these rules and those of the network's options, as the paragraphs of a help page.
std::string describe_resume_rules(std::span<const ResumeRule> network);

/// Settings by the names of the rules.
using Settings = std::map<std::string, std::string>;

/// The settings that differ between a checkpoint and the run that resumes from it.
struct SettingChanges {
  std::vector<std::string> refused;     ///< kNever, in the form "batch 4 -> 2"
  std::vector<std::string> allowed;     ///< kAllowed, in this form
  std::vector<std::string> unrecorded;  ///< missing from an older checkpoint
};

/// Compares kNever and kAllowed settings by value, not by text: "0.50" equals "0.5". `network` has
/// the rules of the network's options.
SettingChanges compare_settings(const Settings& recorded, const Settings& now,
                                std::span<const ResumeRule> network);

}  // namespace halomesh
