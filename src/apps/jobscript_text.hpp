// Puts a checked job into the words of its scheduler: the values that a template is filled with.
// Knows how directives are spelt; what a script does is in jobscripts/templates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/apps/jobscript_plan.hpp"
#include "src/apps/jobscript_template.hpp"

namespace halomesh {

/// One option of the training command; a switch has no value.
struct TrainOption {
  std::string name, value;
  bool is_switch = false;
};

/// What a script says that needs no check.
struct JobWords {
  std::string command;  ///< how this script was asked for
  std::string name, account, program, rank_map_file;
  std::vector<std::string> volumes;
  std::vector<std::string> modules;
  std::vector<TrainOption> train;
  std::int64_t jobs = 1;  ///< of a chain, or starts of a job that is requeued
};

/// The script of one job. Throws UsageError where the words do not fit the site: staging by a burst
/// buffer needs the absolute path of the data, and room for staging excludes --stage-dir.
std::string job_script(const SiteProfile& site, const JobRequest& request, const JobPlan& plan,
                       const JobWords& words, const std::filesystem::path& templates);

}  // namespace halomesh
