// SPDX-License-Identifier: Apache-2.0
// What may change when a training run resumes: one rule per setting.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halomesh {

enum class ChangeRule {
  kNever,    ///< the parameters or the position in the data would be invalid
  kAllowed,  ///< the curve changes: only with --allow-changes
  kFree      ///< the curve stays the same up to rounding, or only its end changes
};

/// The name is that of the option, or `training-samples` for their number.
struct ResumeRule {
  std::string_view name;
  ChangeRule rule;
};

/// The rules of all settings of a training run but the network's options. Those that are not kFree
/// are recorded in checkpoints.
std::span<const ResumeRule> resume_rules();

/// These rules and those of the network's options as the paragraphs of a help page.
std::string describe_resume_rules(std::span<const ResumeRule> network);

/// Settings by the names of the rules.
using Settings = std::map<std::string, std::string>;

/// The settings that differ between a checkpoint and the run that resumes from it.
struct SettingChanges {
  std::vector<std::string> refused;     ///< "batch 4 -> 2": kNever
  std::vector<std::string> allowed;     ///< likewise: kAllowed
  std::vector<std::string> unrecorded;  ///< names that the checkpoint, an older one, does not have
};

/// Compares the values of kNever and kAllowed settings, not their texts: "0.50" equals "0.5".
/// `network`: the rules of the network's options.
SettingChanges compare_settings(const Settings& recorded, const Settings& now,
                                std::span<const ResumeRule> network);

}  // namespace halomesh
