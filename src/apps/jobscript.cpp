// The command `jobscript`: prints a job script for a site. Needs no MPI launch.
// Knows the options; what is possible is jobscript_plan, how it is spelt jobscript_text.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>
#include <vector>

#include "src/apps/commands.hpp"
#include "src/apps/jobscript_text.hpp"
#include "src/apps/model_options.hpp"
#include "src/apps/nearest.hpp"
#include "src/apps/parallel.hpp"
#include "src/apps/train_options.hpp"

namespace halomesh {
namespace {

using Integer = std::int64_t;
using Words = std::vector<std::string>;

Options jobscript_options() {
  Options options("jobscript --site SITE --time H:MM:SS [options] [options of train] > job.sh",
                  "Prints a job script that trains on a site until the training is done, job after "
                  "job.\nOptions of `train` are passed on to it; after -- all are.");
  options.group("Site")
      .add<std::string>("site", "NAME|FILE|list", "", "profile of the site; list: print all")
      .add<std::string>("queue", "NAME", "", "default: the first that holds the job")
      .add<std::string>("account", "NAME", "", "group or project that pays")
      .add<std::string>("profiles", "DIR", "", "directory with sites/ and templates/")
      .add<std::string>("volumes", "A:B", "", "storage volumes used, where the site asks for them")
      .add<std::string>("modules", "A,B|none", "", "modules to load instead of the site's");
  options.group("Size")
      .add<Integer>("nodes", "N", 1, "nodes")
      .at_least(1)
      .add<std::string>("time", "[D-]H:MM:SS", "", "wall time of one job")
      .add<Integer>("jobs", "N", 10, "jobs, or starts of one, at most")
      .at_least(1)
      .add<Integer>("ranks-per-node", "N", 0, "default: one a NUMA domain")
      .at_least(0)
      .add<Integer>("threads", "N", 0, "threads a rank; default: one a core")
      .at_least(0)
      .add<Integer>("cores", "N", 0, "cores a node, where the profile does not say")
      .at_least(0)
      .add<Integer>("stage-gib", "N", 0, "node-local copy of the data: GiB a node; 0: none")
      .at_least(0);
  options.group("Launch")
      .add<std::string>("launcher", "srun|mpirun", "", "what starts the ranks")
      .add<std::string>("mpi-plugin", "NAME", "", "what srun --mpi= is given: pmix, pmi2")
      .add<std::string>("shape", "XxYxZ", "", "PJM: shape of the nodes")
      .add<std::string>("allocation", "MODE", "", "PJM: noncont, mesh or torus")
      .add<std::string>("rank-map", "FILE", "", "PJM: write a map that keeps groups together")
      .add<std::string>("program", "FILE", "", "this program on the site; default: this one")
      .add<std::string>("name", "NAME", "halomesh", "name of the job");
  return options;
}

Options training_options() {
  Options options("train", "");
  add_training_options(options);
  add_model_options(options);
  return options;
}

Words names_of(const Options& options) {
  Words names;
  for (const auto& [name, value] : options.resolved()) names.push_back(name);
  return names;
}

bool contains(const Words& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// The arguments of this command and those for train.
struct Split {
  Words own{"jobscript"}, train{"train"};
  std::vector<TrainOption> passed;
};

/// Takes the option at `at` for train, with its value if one follows.
void take_for_train(const Words& arguments, std::size_t& at, Split& split) {
  const std::string& word = arguments[at];
  const std::size_t equals = word.find('=');
  TrainOption option;
  option.name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  split.train.push_back(word);
  if (equals != std::string::npos) {
    option.value = word.substr(equals + 1);
  } else if (at + 1 < arguments.size() && !arguments[at + 1].starts_with("--")) {
    option.value = arguments[++at];
    split.train.push_back(option.value);
  } else {
    option.is_switch = true;
  }
  split.passed.push_back(option);
}

Split split_arguments(const Words& arguments, const Options& options, const Options& training) {
  const Words own = names_of(options);
  Words names = names_of(training);
  names.emplace_back("config");
  Split split;
  for (const std::string& word : arguments)
    if (word.find_first_of("\n\r") != std::string::npos)
      throw UsageError("an argument contains a line break", "leave it out");
  bool all_for_train = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--" && !all_for_train) {
      all_for_train = true;
      continue;
    }
    const bool is_option = word.starts_with("--");
    const std::string name = is_option ? word.substr(2, word.find('=') - 2) : "";
    if (is_option && (all_for_train || contains(names, name))) {
      take_for_train(arguments, i, split);
    } else if (is_option && !contains(own, name)) {
      names.insert(names.end(), own.begin(), own.end());
      throw UsageError(cat("unknown option --", name),
                       cat("did you mean --", nearest(name, names),
                           "? jobscript --help and train --help list all options"));
    } else {
      split.own.push_back(word);
      if (is_option && word.find('=') == std::string::npos && i + 1 < arguments.size())
        split.own.push_back(arguments[++i]);
    }
  }
  return split;
}

void parse(Options& options, const Words& words) {
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  options.parse(static_cast<int>(argv.size()), argv.data());
}

bool is_passed(const Split& split, const std::string& name) {
  return std::any_of(split.passed.begin(), split.passed.end(),
                     [&](const TrainOption& option) { return option.name == name; });
}

/// Whether the configuration file that goes to train says where results go.
bool config_names_out(const Split& split) {
  for (const TrainOption& option : split.passed) {
    if (option.name != "config") continue;
    Options in_file("", "");
    in_file.add<std::string>("out", "DIR", "", "").accept_in_config(all_run_options());
    parse(in_file, {"train", "--config", option.value});
    return in_file.is_given("out");
  }
  return false;
}

/// Reads what goes to train as train will, so that a mistake is found now and not in the job.
void check_training(Options& training, Split& split) {
  if (is_passed(split, "wall-limit"))
    throw UsageError("--wall-limit is set by the script, from --time", "leave it out");
  if (!is_passed(split, "out") && !config_names_out(split)) {
    split.train.insert(split.train.end(), {"--out", "run"});
    split.passed.push_back({"out", "run", false});
  }
  parse(training, split.train);
}

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

Words pieces(const std::string& text, char separator) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);)
    if (!word.empty()) words.push_back(word);
  return words;
}

JobRequest request_of(const Options& options, const Options& training) {
  JobRequest request;
  request.nodes = options.get<Integer>("nodes");
  request.ranks_per_node = options.get<Integer>("ranks-per-node");
  request.threads = options.get<Integer>("threads");
  request.cores = options.get<Integer>("cores");
  request.stage_gib = options.get<Integer>("stage-gib");
  request.queue = options.get<std::string>("queue");
  request.allocation = options.get<std::string>("allocation");
  request.launcher = options.get<std::string>("launcher");
  request.mpi_plugin = options.get<std::string>("mpi-plugin");
  if (const auto shape = options.get<std::string>("shape"); !shape.empty())
    request.shape = parse_node_shape(shape);
  request.rank_map = !options.get<std::string>("rank-map").empty();
  request.parts = training.get<PartGrid>("parts");
  if (training.is_given("batch")) request.batch = training.get<Integer>("batch");
  const auto time = options.get<std::string>("time");
  const auto seconds = duration_from_text(time);
  if (!seconds)
    throw UsageError(time.empty() ? "--time is missing" : cat("--time: '", time, "' is no time"),
                     "give hours, minutes and seconds, e.g. --time 04:00:00 or 1-12:00:00");
  request.seconds = *seconds;
  return request;
}

JobWords words_of(const Options& options, const SiteProfile& site, const Split& split,
                  const Words& arguments) {
  JobWords words;
  words.command = "halomesh jobscript";
  for (const std::string& argument : arguments) words.command += ' ' + shell_word(argument);
  words.name = options.get<std::string>("name");
  const bool plain = std::all_of(words.name.begin(), words.name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  });
  if (words.name.empty() || !plain)
    throw UsageError(cat("--name '", words.name, "' cannot be the name of a job"),
                     "use letters, digits, '-', '_' and '.'");
  words.account = options.get<std::string>("account");
  words.program = options.get<std::string>("program");
  if (words.program.empty()) words.program = this_program().string();
  words.rank_map_file = options.get<std::string>("rank-map");
  words.volumes = pieces(options.get<std::string>("volumes"), ':');
  const auto modules = options.get<std::string>("modules");
  if (modules.empty() && site.lists.contains("module"))
    words.modules = site.lists.at("module");
  else if (modules != "none")
    words.modules = pieces(modules, ',');
  words.train = split.passed;
  words.jobs = options.get<Integer>("jobs");
  return words;
}

void write_rank_map(const std::string& file, const RankMap& map) {
  std::ofstream out(file);
  out << to_host_file(map);
  out.close();
  if (!out)
    throw Error(cat("the rank map ", file, " cannot be written"),
                "check that its directory exists, is writable and has space");
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
  Options training = training_options();
  Split split = split_arguments(arguments, options, training);
  parse(options, split.own);
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
  check_training(training, split);
  const JobRequest request = request_of(options, training);
  const JobPlan plan = plan_job(site, request);
  const JobWords words = words_of(options, site, split, arguments);
  const std::string script = job_script(site, request, plan, words, directory / "templates");
  if (plan.rank_map) write_rank_map(words.rank_map_file, *plan.rank_map);
  std::cout << script;
  return kExitDone;
}

}  // namespace halomesh
