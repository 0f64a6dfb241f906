// SPDX-License-Identifier: Apache-2.0
// Compares settings when a run resumes: see resume_rules.hpp.
#include "runtime/train/resume_rules.hpp"

#include <algorithm>
#include <charconv>

#include "elided.hpp"
#include "error.hpp"
#include "joined.hpp"

namespace halomesh {
namespace {

/// The numbers in "0.5", "128,64" or "32x32x32x4"; empty for other texts.
std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  const char *at = text.data(), *const end = at + text.size();
  while (at != end) {
    double number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return {};
    numbers.push_back(number);
    at = std::find_if(stop, end, [](char c) { return c != ',' && c != 'x' && c != ' '; });
    if (at == stop && at != end) return {};
  }
  return numbers;
}

bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto numbers = numbers_in(a);
  return !numbers.empty() && numbers == numbers_in(b);
}

}  // namespace

SettingChanges compare_settings(const Settings& recorded, const Settings& now,
                                std::span<const ResumeRule> rules) {
  const auto value_of = [](const Settings& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string("(none)") : found->second;
  };
  // Checkpoints of older versions record neither the rate nor the settings that were added with it.
  const bool complete = recorded.contains("lr");
  SettingChanges changes;
  for (const ResumeRule& r : rules) {
    if (r.role != SettingRole::kNetwork && r.role != SettingRole::kTraining) continue;
    const std::string before = value_of(recorded, r.name), after = value_of(now, r.name);
    if (same_value(before, after)) continue;
    if (!complete && before == "(none)")
      changes.unrecorded.push_back(r.name);
    else
      (r.role == SettingRole::kNetwork ? changes.refused : changes.allowed)
          .push_back(fmt::format("{} {} -> {}", r.name, elided(before), elided(after)));
  }
  return changes;
}

Settings settings_of(const TrainingState& state) {
  Settings settings = state.run;
  settings.insert(state.model.begin(), state.model.end());
  settings["seed"] = std::to_string(state.seed);
  settings.try_emplace("optimizer", "sgd");  // older versions have no other
  return settings;
}

std::vector<std::string> check_resumption(const TrainingState& recorded, const TrainingState& now,
                                          std::span<const ResumeRule> rules, bool allow_changes) {
  const SettingChanges changes = compare_settings(settings_of(recorded), settings_of(now), rules);
  const std::string different = "checkpoint was written with different settings: ";
  require(changes.refused.empty(), different + joined(changes.refused, ", "),
          "give the same options and data to resume, start from its parameters with --init-from "
          "FILE, or use another --out");
  require(changes.allowed.empty() || allow_changes, different + joined(changes.allowed, ", "),
          "give the same options to resume, or --allow-changes to resume with the new ones");
  std::vector<std::string> warnings;
  if (!changes.allowed.empty()) warnings.push_back(different + joined(changes.allowed, ", "));
  if (!changes.unrecorded.empty())
    warnings.push_back("checkpoint does not record " + joined(changes.unrecorded, ", ") +
                       ": the curve continues only if they are as before");
  return warnings;
}

}  // namespace halomesh
