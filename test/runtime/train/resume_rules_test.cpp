// SPDX-License-Identifier: Apache-2.0
// What may change when resuming: settings are compared by value, as their roles say.
#include "runtime/train/resume_rules.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace halomesh {
namespace {

using Texts = std::vector<std::string>;

const Settings kNow{{"model", "cosmoflow"}, {"input", "32x32x32x4"}, {"fc", "128,64"},
                    {"dropout", "0.5"},     {"lr", "0.01"},          {"momentum", "0.9"},
                    {"parts", "2x1x1"}};

SettingChanges changes_of(const Settings& before, const Settings& after) {
  using enum SettingRole;
  const std::vector<ResumeRule> rules{
      {"model", kNetwork},    {"input", kNetwork},     {"fc", kNetwork},
      {"dropout", kTraining}, {"momentum", kTraining}, {"clip-norm", kTraining},
      {"lr", kTraining},      {"parts", kComputing},   {"keep", kFree}};
  return compare_settings(before, after, rules);
}

}  // namespace

TEST_CASE("changed settings are refused, allowed or ignored by their roles") {
  Settings other = kNow;
  other["fc"] = "128,32";
  other["dropout"] = "0.25";
  other["clip-norm"] = "1";
  other["parts"] = "1x1x1";
  other["keep"] = "3";
  const SettingChanges changes = changes_of(other, kNow);
  CHECK(changes.refused == Texts{"fc 128,32 -> 128,64"});
  CHECK(changes.allowed == Texts{"dropout 0.25 -> 0.5", "clip-norm 1 -> (none)"});
  CHECK(changes.unrecorded.empty());
}

TEST_CASE("settings are compared by value, and unrecorded ones are reported separately") {
  Settings same = kNow;
  same["dropout"] = "0.50";
  same["fc"] = "128, 64";
  same["input"] = "32x32x32x04";
  SettingChanges changes = changes_of(same, kNow);
  CHECK(changes.refused.empty());
  CHECK(changes.allowed.empty());

  Settings older = kNow;
  for (const char* name : {"lr", "momentum"}) CHECK(older.erase(name) == 1);
  changes = changes_of(older, kNow);
  CHECK(changes.refused.empty());
  CHECK(changes.allowed.empty());
  CHECK(changes.unrecorded == Texts{"momentum", "lr"});
}

}  // namespace halomesh
