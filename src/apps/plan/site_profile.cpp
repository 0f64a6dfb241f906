// SPDX-License-Identifier: Apache-2.0
// A computing site: see site_profile.hpp.
#include "src/apps/plan/site_profile.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "error.hpp"
#include "src/apps/options/fact_file.hpp"
#include "src/apps/options/nearest.hpp"
#include "src/apps/options/option_text.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// Thrown for a value that cannot be parsed; describes a valid one.
struct Unreadable {
  std::string wanted;
};

std::int64_t number(const std::string& text) {
  const auto value = from_text<std::int64_t>(text);
  if (!value || *value < 0) throw Unreadable{"a whole number, not negative"};
  return *value;
}

template <class Value>
Value choice(const std::string& text, const std::map<std::string, Value>& values) {
  if (const auto found = values.find(text); found != values.end()) return found->second;
  std::string all;
  for (const auto& [name, value] : values) all += (all.empty() ? "" : ", ") + name;
  throw Unreadable{"one of " + all};
}

Queue queue(const std::string& text) {
  std::istringstream words(text);
  std::string nodes, time, modes, rest;
  Queue queue;
  words >> queue.name >> nodes >> time >> modes >> rest;
  const std::size_t dash = nodes.find('-');
  const auto least = from_text<std::int64_t>(nodes.substr(0, dash));
  const auto most =
      dash == std::string::npos ? least : from_text<std::int64_t>(nodes.substr(dash + 1));
  const auto seconds = duration_from_text(time);
  if (!least || !most || !seconds || *least < 1 || *most < *least || !rest.empty())
    throw Unreadable{"NAME MIN-MAX H:MM:SS [MODE,MODE], e.g. large 385-82944 24:00:00 torus"};
  queue.min_nodes = *least;
  queue.max_nodes = *most;
  queue.seconds = *seconds;
  std::istringstream each(modes);
  for (std::string mode; std::getline(each, mode, ',');) queue.modes.push_back(mode);
  return queue;
}

using Reader = std::function<void(SiteProfile&, const std::string&)>;

/// Reads a name's value into one field.
template <class Field, class Read>
Reader into(Field SiteProfile::*field, Read read) {
  return [field, read](SiteProfile& site, const std::string& text) { site.*field = read(text); };
}

const std::set<std::string>& list_names() {
  static const std::set<std::string> kNames = {
      "resource",           "directive",     "module", "environment", "environment-in-domain",
      "environment-across", "launch-option", "note"};
  return kNames;
}

const std::map<std::string, Reader>& readers() {
  const auto text = [](const std::string& value) { return value; };
  const auto schedulers = [](const std::string& value) {
    return choice<Scheduler>(
        value,
        {{"none", Scheduler::kNone}, {"pjm", Scheduler::kPjm}, {"slurm", Scheduler::kSlurm}});
  };
  const auto stages = [](const std::string& value) {
    return choice<StageKind>(value, {{"localtmp", StageKind::kLocaltmp},
                                     {"shm", StageKind::kShm},
                                     {"datawarp", StageKind::kDatawarp}});
  };
  const auto required = [](const std::string& value) {
    return choice<bool>(value, {{"required", true}, {"optional", false}});
  };
  const auto one_of = [](std::map<std::string, std::string> words) {
    return [words = std::move(words)](const std::string& value) { return choice(value, words); };
  };
  static const std::map<std::string, Reader> kAll = {
      {"title", into(&SiteProfile::title, text)},
      {"status",
       into(&SiteProfile::status, one_of({{"current", "current"}, {"historic", "historic"}}))},
      {"scheduler", into(&SiteProfile::scheduler, schedulers)},
      {"launcher", into(&SiteProfile::launcher,
                        one_of({{"mpiexec", "mpiexec"}, {"srun", "srun"}, {"mpirun", "mpirun"}}))},
      {"mpi-plugin", into(&SiteProfile::mpi_plugin, text)},
      {"nodes", into(&SiteProfile::nodes, number)},
      {"machine-shape", into(&SiteProfile::machine_shape, parse_node_shape)},
      {"cores", into(&SiteProfile::cores, number)},
      {"numa-domains", into(&SiteProfile::numa_domains, number)},
      {"threads-per-core", into(&SiteProfile::threads_per_core, number)},
      {"reserved-cores", into(&SiteProfile::reserved_cores, number)},
      {"memory-gib", into(&SiteProfile::memory_gib, number)},
      {"account", into(&SiteProfile::account_required, required)},
      {"queue-option",
       into(&SiteProfile::queue_option,
            one_of({{"rscgrp", "rscgrp"}, {"partition", "partition"}, {"qos", "qos"}}))},
      {"queue",
       [](SiteProfile& site, const std::string& value) { site.queues.push_back(queue(value)); }},
      {"stage", into(&SiteProfile::stage, stages)},
      {"stage-limit-bytes", into(&SiteProfile::stage_limit_bytes, number)},
      {"distribute", into(&SiteProfile::distribute,
                          one_of({{"llio_transfer", "llio_transfer"}, {"bcast", "bcast"}}))},
      {"distribute-from-ranks", into(&SiteProfile::distribute_from_ranks, number)},
      {"volumes", into(&SiteProfile::volumes, text)},
      {"end-margin", into(&SiteProfile::end_margin_s, number)},
      {"signal-margin", into(&SiteProfile::signal_margin_s, number)},
  };
  return kAll;
}

void read_fact(SiteProfile& site, std::set<std::string>& given, const Fact& fact) {
  const auto& [name, value, comment, where] = fact;
  if (list_names().contains(name)) {
    site.lists[name].push_back(value);
    return;
  }
  const auto reader = readers().find(name);
  if (reader == readers().end()) {
    std::vector<std::string> names(list_names().begin(), list_names().end());
    for (const auto& [known, read] : readers()) names.push_back(known);
    throw UsageError(fmt::format("{}: unknown name {}", where, name),
                     fmt::format("did you mean {}? jobscripts/sites/README lists all names",
                                 nearest(name, names)));
  }
  if (name != "queue" && !given.insert(name).second)
    throw UsageError(fmt::format("{}: {} is given twice", where, name), "give it once");
  try {
    reader->second(site, value);
  } catch (const Unreadable& unreadable) {
    throw UsageError(fmt::format("{}: {}: '{}' is not {}", where, name, value, unreadable.wanted),
                     fmt::format("give {}", unreadable.wanted));
  }
}

void check_whole(const SiteProfile& site, const std::set<std::string>& given,
                 const fs::path& file) {
  for (const char* name : {"title", "scheduler", "launcher"})
    if (!given.contains(name))
      throw UsageError(fmt::format("{}: {} is missing", file.c_str(), name),
                       fmt::format("add a line {} = ..., as in the profiles beside it", name));
  if ((site.numa_domains < 1 && given.contains("numa-domains")) || site.threads_per_core < 1)
    throw UsageError(
        fmt::format("{}: numa-domains and threads-per-core must be at least 1", file.c_str()),
        "leave them out if unknown");
}

}  // namespace

std::optional<std::int64_t> duration_from_text(const std::string& text) {
  std::int64_t days = 0;
  std::string clock = text;
  if (const std::size_t dash = text.find('-'); dash != std::string::npos) {
    const auto value = from_text<std::int64_t>(text.substr(0, dash));
    if (!value || *value < 0 || *value > 1000000) return std::nullopt;
    days = *value;
    clock = text.substr(dash + 1);
  }
  std::istringstream fields(clock);
  std::vector<std::int64_t> values;
  for (std::string field; std::getline(fields, field, ':');) {
    const auto value = from_text<std::int64_t>(field);
    // More than a million hours would overflow the seconds.
    if (!value || *value < 0 || *value > 1000000 ||
        (!values.empty() && (field.size() != 2 || *value > 59)))
      return std::nullopt;
    values.push_back(*value);
  }
  if (values.size() != 3 || clock.ends_with(':')) return std::nullopt;
  return ((days * 24 + values[0]) * 60 + values[1]) * 60 + values[2];
}

std::string to_duration_text(std::int64_t seconds) {
  const auto two = [](std::int64_t value) {
    return (value < 10 ? "0" : "") + std::to_string(value);
  };
  return two(seconds / 3600) + ':' + two(seconds / 60 % 60) + ':' + two(seconds % 60);
}

SiteProfile read_site_profile(const fs::path& file) {
  SiteProfile site;
  site.name = file.stem().string();
  std::set<std::string> given;
  for (const Fact& fact : read_facts(file, "site profile")) read_fact(site, given, fact);
  check_whole(site, given, file);
  return site;
}

fs::path find_jobscripts(const fs::path& program) {
  for (fs::path at = program.parent_path(); at.has_relative_path(); at = at.parent_path())
    for (const char* below : {"jobscripts", "share/halomesh/jobscripts"})
      if (std::error_code none; fs::is_directory(at / below / "sites", none)) return at / below;
  throw Error(fmt::format("no site profiles were found beside {}", program.c_str()),
              "run make install, or name their directory: --profiles DIR");
}

std::vector<std::string> site_names(const fs::path& directory) {
  return fact_file_names(directory / "sites");
}

SiteProfile load_site(const std::string& site, const fs::path& directory) {
  return read_site_profile(find_fact_file("site", site, directory / "sites"));
}

}  // namespace halomesh
