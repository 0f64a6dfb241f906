// SPDX-License-Identifier: Apache-2.0
// What may change when a training run resumes: see resume_rules.hpp.
#include "runtime/train/resume_rules.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "error.hpp"

namespace halomesh {
namespace {

using enum ChangeRule;

constexpr std::array kRules = std::to_array<ResumeRule>({
    {"seed", kNever},
    {"batch", kNever},
    {"shuffle", kNever},
    {"training-samples", kNever},
    {"optimizer", kNever},
    {"lr", kAllowed},
    {"schedule", kAllowed},
    {"warmup-epochs", kAllowed},
    {"warmup-initial-lr", kAllowed},
    {"decay-epochs", kAllowed},
    {"decay-factors", kAllowed},
    {"linear-epochs", kAllowed},
    {"linear-end-factor", kAllowed},
    {"warmup-steps", kAllowed},
    {"milestones", kAllowed},
    {"gamma", kAllowed},
    {"decay-steps", kAllowed},
    {"min-lr", kAllowed},
    {"poly-power", kAllowed},
    {"clip-norm", kAllowed},
    {"gradient-payload", kAllowed},
    {"skip-gradients", kAllowed},
    {"reproducible", kAllowed},
    {"momentum", kAllowed},
    {"weight-decay", kAllowed},
    {"betas", kAllowed},
    {"epsilon", kAllowed},
    {"lars-coefficient", kAllowed},
    {"lars-biases", kAllowed},
    {"augment", kAllowed},
    {"patches", kAllowed},
    {"foreground", kAllowed},
    {"pad", kAllowed},
    {"precision", kAllowed},
    {"parts", kFree},
    {"reduction", kFree},
    {"accumulate", kFree},
    {"recompute", kFree},
    {"epochs", kFree},
    {"steps", kFree},
    {"target-score", kFree},
    {"target-mae", kFree},
    {"wall-limit", kFree},
    {"evaluate-every", kFree},
    {"evaluate-first", kFree},
    {"overlap", kFree},
    {"affine-mismatch", kFree},
    {"checkpoint-every", kFree},
    {"keep", kFree},
    {"data", kFree},
    {"out", kFree},
    {"stage-dir", kFree},
    {"stage-codec", kFree},
    {"keep-stage", kFree},
    {"trace", kFree},
    {"trace-ranks", kFree},
    {"trace-steps", kFree},
    {"resume", kFree},
    {"instances", kFree},
    {"allow-changes", kFree},
    {"init-from", kFree},
    {"mllog", kFree},
    {"cache-cleared", kFree},
    {"submission-org", kFree},
    {"submission-division", kFree},
    {"submission-status", kFree},
    {"submission-platform", kFree},
    {"submission-poc-name", kFree},
    {"submission-poc-email", kFree},
});

/// The numbers of "0.5", "128,64" or "32x32x32x4"; empty for other texts.
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

/// The network's rules come first.
std::vector<ResumeRule> with_rules_of(std::span<const ResumeRule> network) {
  std::vector<ResumeRule> rules(network.begin(), network.end());
  rules.insert(rules.end(), kRules.begin(), kRules.end());
  return rules;
}

}  // namespace

std::span<const ResumeRule> resume_rules() { return kRules; }

std::string describe_resume_rules(std::span<const ResumeRule> network) {
  const std::vector<ResumeRule> rules = with_rules_of(network);
  const auto names = [&](ChangeRule rule) {
    std::string text;
    std::size_t line = 0;
    for (const ResumeRule& r : rules) {
      if (r.rule != rule) continue;
      const bool wraps = text.size() - line + r.name.size() > 78;
      text += text.empty() ? "" : wraps ? ",\n    " : ", ";
      if (wraps) line = text.size() - 4;
      text += r.name;
    }
    return text;
  };
  return fmt::format(
      "What may change when resuming\n  never:\n    {}\n  only with --allow-changes, as the curve "
      "changes:\n    {}\n  freely, as the curve stays the same up to rounding or only ends "
      "elsewhere:\n    {}\n",
      names(kNever), names(kAllowed), names(kFree));
}

SettingChanges compare_settings(const Settings& recorded, const Settings& now,
                                std::span<const ResumeRule> network) {
  const auto value_of = [](const Settings& settings, std::string_view name) {
    const auto found = settings.find(std::string(name));
    return found == settings.end() ? std::string("(none)") : found->second;
  };
  // Checkpoints of older versions record neither the rate nor the settings added with it.
  const bool complete = recorded.contains("lr");
  SettingChanges changes;
  for (const ResumeRule& r : with_rules_of(network)) {
    const std::string before = value_of(recorded, r.name), after = value_of(now, r.name);
    if (r.rule == kFree || same_value(before, after)) continue;
    if (!complete && before == "(none)")
      changes.unrecorded.emplace_back(r.name);
    else
      (r.rule == kNever ? changes.refused : changes.allowed)
          .push_back(fmt::format("{} {} -> {}", r.name, before, after));
  }
  return changes;
}

}  // namespace halomesh
