// SPDX-License-Identifier: Apache-2.0
// Writes the script of a checked job: the values for the templates in jobscripts/templates, among
// them the directives of each scheduler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/apps/options/options.hpp"
#include "src/apps/plan/jobscript_plan.hpp"
#include "src/apps/plan/jobscript_template.hpp"

namespace halomesh {

/// The parts of a script that are not checked against the site.
struct JobWords {
  std::string command;  ///< the command that printed this script
  std::string name, account, program, rank_map_file;
  std::vector<std::string> volumes;
  std::vector<std::string> modules;
  bool scaling = false;               ///< runs the command scaling, not train
  std::vector<Options::Given> train;  ///< options of that command
  std::int64_t jobs = 1;              ///< jobs of a chain, or starts of a requeued job
};

/// The script of one job. Throws UsageError for requests that the site does not allow: staging by a
/// burst buffer needs the absolute path of the data, and --stage-gib excludes --stage-dir.
std::string job_script(const SiteProfile& site, const JobRequest& request, const JobPlan& plan,
                       const JobWords& words, const std::filesystem::path& templates);

}  // namespace halomesh
