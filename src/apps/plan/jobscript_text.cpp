// SPDX-License-Identifier: Apache-2.0
// Writes the script of a checked job: see jobscript_text.hpp.
#include "src/apps/plan/jobscript_text.hpp"

#include <algorithm>

#include "counted.hpp"
#include "error.hpp"
#include "joined.hpp"

namespace halomesh {
namespace {

using Lines = std::vector<std::string>;

// The time between a SIGTERM from mpirun and its kill of the ranks: long enough for a step and a
// checkpoint of some megabytes. A job with a dead rank, or one that has stopped cleanly with exit
// code 75, ends after twice this time on one node and four times on several (Open MPI 4.1,
// measured).
constexpr std::int64_t kKillSeconds = 2;
constexpr std::int64_t kSrunWaitSeconds = 5;  ///< for the ranks to end after the first one
constexpr std::int64_t kManyRanks = 1000;     ///< from here on each rank's output has its own file

const Lines& list(const SiteProfile& site, const std::string& name) {
  static const Lines kNone;
  const auto found = site.lists.find(name);
  return found == site.lists.end() ? kNone : found->second;
}

Lines optional_line(const std::string& text) { return text.empty() ? Lines{} : Lines{text}; }
Lines switched(bool on) { return on ? Lines{"on"} : Lines{}; }

std::string option_value(const JobWords& words, const std::string& name) {
  for (const Options::Given& option : words.train)
    if (option.name == name) return option.value.value_or("");
  return {};
}

/// The name of the node-local directory in the script.
std::string stage_directory(const SiteProfile& site, const JobWords& words) {
  if (site.stage == StageKind::kLocaltmp) return "\"$PJM_LOCALTMP\"";
  const char* id = site.scheduler == Scheduler::kSlurm ? "$SLURM_JOB_ID" : "$$";
  return fmt::format("\"/dev/shm/{}-{}\"", words.name, id);
}

Lines train_lines(const SiteProfile& site, const JobPlan& plan, const JobWords& words) {
  Lines lines;
  const bool burst = plan.stage_bytes > 0 && site.stage == StageKind::kDatawarp;
  for (const Options::Given& option : words.train) {
    if (option.name == "data" && burst)
      lines.emplace_back("--data \"$DW_JOB_STRIPED/data\"");
    else
      lines.push_back("--" + option.name +
                      (option.value ? option.separator + shell_word(*option.value) : ""));
  }
  if (plan.stage_bytes == 0 || burst) return lines;
  if (!option_value(words, "stage-dir").empty())
    throw UsageError("--stage-gib chooses the staging directory, but --stage-dir names another",
                     "give one of them");
  lines.push_back("--stage-dir " + stage_directory(site, words));
  return lines;
}

Lines burst_buffer(const JobPlan& plan, const JobWords& words) {
  const std::string data = option_value(words, "data");
  if (!data.starts_with('/') || data.find(' ') != std::string::npos)
    throw UsageError(fmt::format("--data {} cannot be copied into a burst buffer", data),
                     "give an absolute path without spaces");
  return {
      fmt::format("jobdw capacity={}GB access_mode=striped type=scratch", plan.stage_bytes >> 30),
      fmt::format("stage_in source={} destination=$DW_JOB_STRIPED/data type=directory", data)};
}

/// The volumes of the job's paths, as far as the paths show them.
std::string volumes(const SiteProfile& site, const JobWords& words) {
  Lines found = words.volumes;
  Lines paths = {words.program};
  for (const char* name : {"data", "out", "config"}) paths.push_back(option_value(words, name));
  for (const std::string& path : paths) {
    if (site.volumes.empty() || !path.starts_with(site.volumes)) continue;
    const std::string volume = path.substr(0, path.find('/', 1));
    if (std::find(found.begin(), found.end(), volume) == found.end()) found.push_back(volume);
  }
  return joined(found, ":");
}

Lines notes(const SiteProfile& site, const JobPlan& plan, const JobWords& words) {
  Lines lines = list(site, "note");
  if (site.status == "historic") lines.emplace_back("This machine is out of service.");
  if (plan.rank_map)
    lines.push_back(fmt::format(
        "Rank map {}: a group on {} nodes, {:g} hops between parts that share a face.",
        words.rank_map_file, to_string(plan.rank_map->block), plan.rank_map->mean_hops));
  if (site.scheduler == Scheduler::kPjm && plan.mesh.ranks() >= kManyRanks)
    lines.emplace_back("The ranks' output goes to output.JOB/, with one directory per 1000 ranks.");
  if (!site.volumes.empty() && volumes(site, words).empty())
    lines.push_back(
        fmt::format("No path here begins with {}...: name the volumes used, with --volumes or "
                    "pjsub -x PJM_LLIO_GFSCACHE=...",
                    site.volumes));
  return lines;
}

Lines environment(const SiteProfile& site, const JobPlan& plan) {
  Lines all = list(site, "environment");
  if (plan.within_domain) {
    const Lines& more =
        list(site, *plan.within_domain ? "environment-in-domain" : "environment-across");
    all.insert(all.end(), more.begin(), more.end());
  }
  for (std::string& one : all) {
    const std::size_t equals = one.find('=');
    one = one.substr(0, equals + 1) + shell_word(one.substr(equals + 1));
  }
  return all;
}

std::string launch_options(const SiteProfile& site, const JobPlan& plan) {
  Lines options;
  if (plan.launcher == "srun") {
    // Since Slurm 22.05 srun does not take this from the job.
    options.push_back(fmt::format("--cpus-per-task={}", plan.cpus_per_rank));
    if (!plan.mpi_plugin.empty()) options.push_back("--mpi=" + plan.mpi_plugin);
    const Lines& more = list(site, "launch-option");
    options.insert(options.end(), more.begin(), more.end());
  } else if (plan.launcher == "mpirun") {
    options.push_back(
        site.scheduler == Scheduler::kSlurm
            ? fmt::format("--map-by ppr:{}:node:PE={}", plan.ranks_per_node, plan.threads)
            : fmt::format("--map-by slot:PE={}", plan.threads));
    options.emplace_back("--bind-to core");
  } else if (plan.mesh.ranks() >= kManyRanks) {
    options.emplace_back(
        "-stdout-proc output.%j/%/1000r/stdout -stderr-proc "
        "output.%j/%/1000r/stderr");
  }
  return joined(options, " ");
}

void add_numbers(const JobRequest& request, const JobPlan& plan, const JobWords& words,
                 TemplateValues& values) {
  const auto number = [&](const char* name, std::int64_t value) {
    values[name] = {std::to_string(value)};
  };
  number("nodes", plan.nodes);
  number("ranks", plan.mesh.ranks());
  number("ranks_per_node", plan.ranks_per_node);
  number("threads", plan.threads);
  number("cpus_per_rank", plan.cpus_per_rank);
  number("seconds", request.seconds);
  number("kill_timeout", kKillSeconds);
  number("srun_wait", kSrunWaitSeconds);
  values["reserved_cores"] =
      plan.reserved_cores > 0 ? Lines{std::to_string(plan.reserved_cores)} : Lines{};
  values["time"] = {to_duration_text(request.seconds)};
  if (words.scaling)
    values["numbers"] = {fmt::format("{}, {} per node, x {}", counted(plan.mesh.ranks(), "rank"),
                                     plan.ranks_per_node, counted(plan.threads, "thread"))};
  else
    values["numbers"] = {
        fmt::format("{}, {} per node, x {}: {} x {} ({})", counted(plan.mesh.ranks(), "rank"),
                    plan.ranks_per_node, counted(plan.threads, "thread"),
                    counted(plan.mesh.replicas, "replica"),
                    counted(plan.mesh.parts.count(), "part"), to_string(plan.mesh.parts))};
}

void add_pjm(const SiteProfile& site, const JobPlan& plan, const JobWords& words,
             TemplateValues& values) {
  std::string nodes = plan.shape.empty() ? std::to_string(plan.nodes) : to_string(plan.shape);
  if (plan.allocation != "noncont") nodes += ':' + plan.allocation;
  Lines resources = {};
  if (!plan.queue.empty()) resources.push_back("rscgrp=" + plan.queue);
  resources.push_back("node=" + nodes);
  resources.push_back("elapse=" + values["time"].front());
  const Lines& more = list(site, "resource");
  resources.insert(resources.end(), more.begin(), more.end());
  values["resources"] = resources;
  values["mpi"] = {fmt::format("proc={}", plan.mesh.ranks()),
                   fmt::format("max-proc-per-node={}", plan.ranks_per_node)};
  if (plan.rank_map) values["mpi"].push_back("rank-map-hostfile=" + words.rank_map_file);
  values["llio"] = plan.stage_bytes > 0
                       ? Lines{fmt::format("localtmp-size={}Gi", plan.stage_bytes >> 30)}
                       : Lines{};
  values["volumes"] = optional_line(volumes(site, words));
  values["llio_transfer"] = switched(site.distribute == "llio_transfer");
  const std::string config = option_value(words, "config");
  values["shared_files"] = {config.empty() ? "" : shell_word(config)};
}

void add_slurm(const SiteProfile& site, const JobRequest& request, const JobPlan& plan,
               const JobWords& words, TemplateValues& values) {
  const bool srun = plan.launcher == "srun";
  // Slurm may send the signal up to a minute early: a short job must not receive it right after its
  // start.
  const std::int64_t early =
      std::min(site.signal_margin_s, std::max<std::int64_t>(request.seconds - 60, 0) / 2);
  // The signal goes to the script if it forwards it to mpirun, otherwise to every rank.
  values["signal"] = early > 0 ? Lines{fmt::format("{}USR2@{}", srun ? "" : "B:", early)} : Lines{};
  values["queue_option"] = {site.queue_option};
  values["queue"] = optional_line(plan.queue);
  values["srun"] = switched(srun);
  values["bcast"] = switched(srun && site.distribute == "bcast" &&
                             plan.mesh.ranks() >= site.distribute_from_ranks);
  values["burst_buffer"] = plan.stage_bytes > 0 && site.stage == StageKind::kDatawarp
                               ? burst_buffer(plan, words)
                               : Lines{};
}

}  // namespace

std::string job_script(const SiteProfile& site, const JobRequest& request, const JobPlan& plan,
                       const JobWords& words, const std::filesystem::path& templates) {
  const bool pjm = site.scheduler == Scheduler::kPjm, slurm = site.scheduler == Scheduler::kSlurm;
  TemplateValues values;
  add_numbers(request, plan, words, values);
  values["headline"] = {fmt::format("{}: {} on {}{}", site.title,
                                    words.scaling ? "measures scaling" : "trains", plan.nodes,
                                    plan.nodes == 1 ? " node" : " nodes")};
  values["verb"] = {words.scaling ? "scaling" : "train"};
  values["work"] = {words.scaling ? "study" : "training"};
  values["site"] = {site.name};
  values["name"] = {words.name};
  values["command"] = {words.command};
  values["notes"] = notes(site, plan, words);
  values["jobs"] = {std::to_string(words.jobs)};
  values["account"] = optional_line(words.account);
  const bool asks_account = site.account_required && words.account.empty();
  const std::string account = !asks_account ? "" : pjm ? "-g GROUP" : "--account=ACCOUNT";
  values["account_option"] = {account};
  values["submit_options"] = {account.empty() ? "" : account + ' '};
  values["modules"] = words.modules;
  values["environment"] = environment(site, plan);
  values["active"] = switched(pjm || slurm);
  values["program"] = {shell_word(words.program)};
  values["train"] = train_lines(site, plan, words);
  values["end_margin"] = {std::to_string(site.end_margin_s)};
  values["launch_options"] = {launch_options(site, plan)};
  const bool shm = plan.stage_bytes > 0 && site.stage == StageKind::kShm;
  values["shm"] = switched(shm);
  values["stage_dir"] = optional_line(shm ? stage_directory(site, words) : "");
  values["go_on"] = {pjm     ? "the next job of the chain resumes"
                     : slurm ? "the job goes back into the queue unless this was its last start"
                             : "run this script again to resume"};
  values["directives"] = {};
  for (const std::string& directive : list(site, "directive"))
    for (const std::string& line : fill_line(directive, values))
      values["directives"].push_back(line);
  if (pjm) add_pjm(site, plan, words, values);
  if (slurm) add_slurm(site, request, plan, words, values);
  return fill_template(templates, pjm ? "pjm.sh" : slurm ? "slurm.sh" : "mpirun.sh", values);
}

}  // namespace halomesh
