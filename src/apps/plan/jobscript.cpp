// SPDX-License-Identifier: Apache-2.0
// The command `jobscript`: prints a job script for a site. Needs no MPI launch. jobscript_plan
// checks the request, jobscript_text writes the script.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <thread>
#include <vector>

#include "counted.hpp"
#include "narrow.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "runtime/step/part_memory.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/output_directory.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/model_options.hpp"
#include "src/apps/options/scaling_options.hpp"
#include "src/apps/options/train_options.hpp"
#include "src/apps/plan/jobscript_text.hpp"
#include "src/apps/plan/memory_forecast.hpp"
#include "src/apps/train/network_on_mesh.hpp"
#include "src/apps/train/training_plan.hpp"

namespace halomesh {
namespace {

using Integer = std::int64_t;
using Words = std::vector<std::string>;

Options jobscript_options() {
  Options options(
      "jobscript --site SITE --time H:MM:SS [options] [options of train] > job.sh",
      "Prints a Slurm, PJM or mpirun script that trains at a site, job after job, until "
      "the training is\ndone. Options of `train` are passed on to it, and so is "
      "everything after --. With\n--scaling the job measures scaling instead, and takes the "
      "options "
      "of `scaling`.",
      "halomesh jobscript --site fugaku --nodes 512 --time 4:00:00 --account GROUP "
      "--parts 4x1x1 --batch 512 --data DIR");
  options.group("Site")
      .add<std::string>("site", "NAME|FILE|list", "",
                        "profile of the site; list: print all profiles")
      .add("queue", "NAME", &JobRequest::queue,
           "queue or partition; default: the first that fits the job")
      .add("account", "NAME", &JobWords::account, "account, group or project to charge")
      .add<std::string>("profiles", "DIR", "", "directory that holds sites/ and templates/")
      .add<std::string>("volumes", "A:B", "", "storage volumes used, where the site requires them")
      .add<std::string>("modules", "A,B|none", "",
                        "modules to load instead of those of the profile");
  options.add_switch("scaling", "write a job that runs halomesh scaling");
  options.group("Size")
      .add("nodes", "N", &JobRequest::nodes, "number of nodes")
      .at_least(1)
      .at_most(1000000)
      .add<std::string>("time", "[D-]H:MM:SS", "", "wall-time limit of one job")
      .add<Integer>("jobs", "N", 10, "maximum number of jobs in the chain")
      .into(&JobWords::jobs)
      .at_least(1)
      .add("ranks-per-node", "N", &JobRequest::ranks_per_node,
           "ranks per node; default: one per NUMA domain")
      .at_least(0)
      .at_most(10000)
      .add("threads", "N", &JobRequest::threads, "threads per rank; default: one per core")
      .at_least(0)
      .at_most(10000)
      .add("cores", "N", &JobRequest::cores, "cores per node, where the profile does not say")
      .at_least(0)
      .at_most(10000)
      .add("stage-gib", "N", &JobRequest::stage_gib,
           "stage the data in node-local space of N GiB per node; 0: no staging")
      .at_least(0)
      .at_most(1000000);
  options.group("Launch")
      .add("launcher", "srun|mpirun", &JobRequest::launcher, "launcher of the ranks")
      .add("mpi-plugin", "NAME", &JobRequest::mpi_plugin, "value of srun --mpi=, e.g. pmix or pmi2")
      .add<std::string>("shape", "XxYxZ", "", "PJM: shape of the allocated nodes")
      .add("allocation", "MODE", &JobRequest::allocation,
           "PJM: allocation mode noncont, mesh or torus")
      .add("rank-map", "FILE", &JobWords::rank_map_file,
           "PJM: write a rank map that keeps the parts of a sample close")
      .add("program", "FILE", &JobWords::program,
           "path of halomesh at the site; default: this program")
      .add<std::string>("name", "NAME", "halomesh", "job name")
      .into(&JobWords::name);
  return options;
}

Options training_options() {
  Options options("train", "");
  add_training_options(options, "run");
  add_model_options(options);
  return options;
}

/// True for --scaling, which decides which other options exist.
bool asks_for_scaling(const Words& arguments) {
  return std::find(arguments.begin(), arguments.end(), "--scaling") != arguments.end() ||
         std::find(arguments.begin(), arguments.end(), "--scaling=on") != arguments.end();
}

/// Parses the options for train or scaling as these will, so that mistakes are found now and not in
/// the job.
std::vector<Options::Given> check_training(Options& training, const Words& arguments,
                                           bool scaling) {
  training.parse(arguments);
  print_notes(std::cerr, training);
  std::vector<Options::Given> given = training.given();
  if (std::any_of(given.begin(), given.end(), [](const auto& o) { return o.name == "wall-limit"; }))
    throw UsageError("--wall-limit is set by the script, from --time", "leave it out");
  if (!scaling && !training.is_given("out"))
    given.push_back({"out", training.get<std::string>("out")});
  return given;
}

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

Words pieces(const std::string& text, char separator) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);)
    if (!word.empty()) words.push_back(word);
  return words;
}

JobRequest request_of(const Options& options, const Options& training, bool scaling) {
  auto request = options.read<JobRequest>();
  if (const auto shape = options.get<std::string>("shape"); !shape.empty())
    request.shape = parse_node_shape(shape);
  request.rank_map = !options.get<std::string>("rank-map").empty();
  if (!scaling) request.instances = training.get<Integer>("instances");
  if (!scaling) request.parts = training.get<PartGrid>("parts");
  if (!scaling) request.batch = training.get<Integer>("batch");
  const auto time = options.get<std::string>("time");
  const auto seconds = duration_from_text(time);
  if (!seconds)
    throw UsageError(
        time.empty() ? "--time is missing" : fmt::format("--time: '{}' is not a duration", time),
        "give hours, minutes and seconds, e.g. --time 04:00:00 or 1-12:00:00");
  request.seconds = *seconds;
  return request;
}

/// Checks the options of a scaling study, which reads no data and measures only on ranks of the
/// job.
void check_scaling(const Options& options, const Options& study, const JobPlan& plan) {
  if (options.get<Integer>("stage-gib") > 0)
    throw UsageError("--stage-gib has no meaning with --scaling, which reads no data",
                     "leave it out");
  for (const Integer ranks : study.get<std::vector<Integer>>("ranks"))
    if (ranks > plan.mesh.ranks())
      throw UsageError(
          fmt::format("--ranks names {}, but the job has {} on {}", counted(ranks, "rank"),
                      plan.mesh.ranks(), counted(plan.nodes, "node")),
          fmt::format("use --nodes {}, or leave {} out",
                      (ranks + plan.ranks_per_node - 1) / plan.ranks_per_node, ranks));
}

/// The bytes of the rank that needs most, with outputs computed again where --recompute allows it.
std::int64_t memory_of_rank(const Options& training, const JobPlan& plan) {
  const std::int64_t ranks = plan.mesh.ranks() / training.get<Integer>("instances");
  PlannedNetwork network = planned_network(training, ranks, planned_precision(training));
  MemorySetting setting;
  setting.mesh = network.shape;
  setting.batch =
      training.get<Integer>("batch") / network.shape.replicas / training.get<Integer>("accumulate");
  setting.optimizer_states = state_arrays(training);
  setting.use = memory_use(training).value_or(MemoryUse::kRecomputed);
  setting.payload = payload_type(training);
  setting.ranks_per_node = narrow<int>(plan.ranks_per_node);
  setting.threads = narrow<int>(plan.threads);
  const std::int64_t part = largest_part(network.model, network.geometry, setting);
  return memory_of_part(network.model, network.geometry, part, network.loss.get(), setting).total();
}

/// Warns of ranks that are spread over NUMA domains, or may be where their number is not known.
void warn_of_domains(const SiteProfile& site, const JobPlan& plan) {
  if (plan.within_domain && !*plan.within_domain)
    std::cerr << fmt::format(
        "WARNING: the {} threads of a rank are spread over NUMA domains, of which a node has {}; "
        "hint: --ranks-per-node {} keeps each rank in one\n",
        plan.threads, site.numa_domains, site.numa_domains);
  if (site.numa_domains == 0 && plan.ranks_per_node == 1 && plan.threads > 1 &&
      site.scheduler != Scheduler::kNone)
    std::cerr << fmt::format(
        "WARNING: the {} threads of the only rank of a node may be spread over NUMA domains, as "
        "the profile {} does not say how many a node has; hint: add numa-domains to a copy of the "
        "profile (lscpu shows them), or give --ranks-per-node\n",
        plan.threads, site.name);
}

/// Refuses a job that a node of the site has no memory for; where a node's memory is not known,
/// says what the job needs.
void check_memory(const Options& training, const SiteProfile& site, const JobPlan& plan) {
  constexpr Integer kMostForecast = 4096;  // local samples that `plan` answers for
  if (training.get<Integer>("batch") / plan.mesh.replicas > kMostForecast) return;
  const auto in_gib = [](std::int64_t bytes) { return static_cast<double>(bytes) * 0x1p-30; };
  const std::int64_t of_rank = memory_of_rank(training, plan);
  const std::int64_t staged = site.stage == StageKind::kShm ? plan.stage_bytes : 0;
  const double needed = in_gib(of_rank * plan.ranks_per_node + staged);
  if (site.memory_gib == 0 && site.scheduler != Scheduler::kNone)
    std::cerr << fmt::format(
        "note: the profile {} does not say what memory a node has; this job needs {:.4g} GiB "
        "per node\n",
        site.name, needed);
  if (site.memory_gib > 0 && needed > static_cast<double>(site.memory_gib))
    throw UsageError(
        fmt::format("{} of {:.3g} GiB need {:.4g} GiB per node, but a node of {} has {}",
                    counted(plan.ranks_per_node, "rank"), in_gib(of_rank), needed, site.name,
                    site.memory_gib),
        "use more --parts, a smaller --batch, fewer --ranks-per-node, or --recompute on");
}

/// Refuses special characters in words that a shell or a scheduler reads unquoted from the script.
void require_plain_words(const Options& options) {
  for (const char* const name :
       {"account", "queue", "modules", "volumes", "mpi-plugin", "allocation", "rank-map"})
    for (const std::string& word : pieces(options.get<std::string>(name), ','))
      if (shell_word(word) != word)
        throw UsageError(fmt::format("--{} '{}' cannot be written to a job script", name, word),
                         "use letters, digits and the characters _ - + = . / : % @ ^ alone");
}

JobWords words_of(const Options& options, const SiteProfile& site, const Words& arguments) {
  require_plain_words(options);
  auto words = options.read<JobWords>();
  words.command = "halomesh jobscript";
  for (const std::string& argument : arguments) words.command += ' ' + shell_word(argument);
  const bool plain = std::all_of(words.name.begin(), words.name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  });
  if (words.name.empty() || !plain)
    throw UsageError(fmt::format("--name '{}' cannot be the name of a job", words.name),
                     "use letters, digits, '-', '_' and '.'");
  if (words.program.empty()) words.program = this_program().string();
  words.volumes = pieces(options.get<std::string>("volumes"), ':');
  const auto modules = options.get<std::string>("modules");
  if (modules.empty() && site.lists.contains("module"))
    words.modules = site.lists.at("module");
  else if (modules != "none")
    words.modules = pieces(modules, ',');
  return words;
}

void print_sites(const std::filesystem::path& directory) {
  for (const std::string& name : site_names(directory)) {
    const SiteProfile site = load_site(name, directory);
    std::cout << name << std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') << site.title
              << (site.status == "historic" ? " (out of service)" : "") << '\n';
  }
}

}  // namespace

int run_jobscript(int argc, char** argv) {
  Options options = jobscript_options();
  if (Options::asks_for_help(argc, argv)) {
    std::cout << options.help();
    return kExitDone;
  }
  const Words arguments(argv + 1, argv + argc);
  const bool scaling = asks_for_scaling(arguments);
  Options training = scaling ? scaling_options() : training_options();
  for (const std::string& word : arguments)
    if (word.find_first_of("\n\r") != std::string::npos)
      throw UsageError("an argument contains a line break", "leave it out");
  const Words for_train = options.parse_own(arguments, training);
  check_output(options, "rank-map");
  const auto profiles = options.get<std::string>("profiles");
  const std::filesystem::path directory =
      profiles.empty() ? find_jobscripts(this_program()) : std::filesystem::path(profiles);
  const auto name = options.get<std::string>("site");
  if (name == "list") {
    print_sites(directory);
    return kExitDone;
  }
  if (name.empty())
    throw UsageError("--site is missing", "give --site NAME; --site list prints all names");
  SiteProfile site = load_site(name, directory);
  if (site.scheduler == Scheduler::kNone && site.cores == 0)
    site.cores =
        std::max<Integer>(std::thread::hardware_concurrency(), options.get<Integer>("cores"));
  const std::vector<Options::Given> given = check_training(training, for_train, scaling);
  const JobRequest request = request_of(options, training, scaling);
  const JobPlan plan = plan_job(site, request);
  if (scaling) {
    check_scaling(options, training, plan);
  } else {
    check_training(training, plan.mesh.ranks());
    check_memory(training, site, plan);
  }
  warn_of_domains(site, plan);
  JobWords words = words_of(options, site, arguments);
  words.scaling = scaling;
  words.train = given;
  const std::string script = job_script(site, request, plan, words, directory / "templates");
  if (plan.rank_map) write_file_atomically(words.rank_map_file, to_host_file(*plan.rank_map));
  std::cout << script;
  return kExitDone;
}

}  // namespace halomesh
