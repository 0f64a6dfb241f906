// SPDX-License-Identifier: Apache-2.0
// The names of the options that define a network: see network_options.hpp.
#include "src/apps/options/network_options.hpp"

#include "src/apps/options/model_options.hpp"

namespace halomesh {

std::vector<std::string> network_option_names() {
  std::vector<std::string> names;
  for (const ResumeRule& rule : network_resume_rules())
    if (rule.rule == ChangeRule::kNever) names.emplace_back(rule.name);
  return names;
}

}  // namespace halomesh
