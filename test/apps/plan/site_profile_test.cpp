// SPDX-License-Identifier: Apache-2.0
// Site profiles: the format, its mistakes, and what every profile must hold.
#include "src/apps/plan/site_profile.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "error.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

fs::path profiles() {
  const char* root = std::getenv("HALOMESH_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  return fs::path(root != nullptr ? root : ".") / "jobscripts";
}

const std::string kLeast = "title = T\nscheduler = slurm\nlauncher = srun\n";

SiteProfile read(const std::string& text) {
  const TempDirectory directory;
  const fs::path file = directory.path() / "mine.ini";
  std::ofstream(file) << text;
  return read_site_profile(file);
}

/// "WHAT | HINT" of the refusal, from the file's name on.
std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const UsageError& error) {
    const std::string what = error.what();
    return what.substr(what.find("mine.ini")) + " | " + error.hint();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("durations are read and written") {
  CHECK(duration_from_text("04:00:00") == 14400);
  CHECK(duration_from_text("4:00:05") == 14405);
  CHECK(duration_from_text("1-12:30:00") == 131400);
  CHECK(duration_from_text("168:00:00") == 604800);
  for (const char* bad : {"", "4", "4:00", "04:60:00", "04:00:60", "4:0:0", "-1:00:00", "x:00:00",
                          "04:00:00:00", "04:00:00:", "1-", "-04:00:00"})
    CHECK(!duration_from_text(bad).has_value());
  CHECK(to_duration_text(14405) == "04:00:05");
  CHECK(to_duration_text(604800) == "168:00:00");
}

TEST_CASE("a profile is read") {
  const SiteProfile site = read(kLeast +
                                "# a comment\n\nqueue = a 1-4 1:00:00 mesh,torus  # here, too\n"
                                "queue = b 2 2:00:00\nmodule = m\nmodule = n/1\n"
                                "machine-shape = 4x6\nenvironment = A=b=c\naccount = required\n");
  CHECK(site.name == "mine");
  CHECK(site.scheduler == Scheduler::kSlurm);
  REQUIRE(site.queues.size() == 2);
  CHECK(site.queues[0].modes == std::vector<std::string>{"mesh", "torus"});
  CHECK(site.queues[1].min_nodes == 2);
  CHECK(site.queues[1].max_nodes == 2);
  CHECK(site.queues[1].seconds == 7200);
  CHECK(site.lists.at("module") == std::vector<std::string>{"m", "n/1"});
  CHECK(site.lists.at("environment") == std::vector<std::string>{"A=b=c"});
  CHECK(site.machine_shape == NodeShape{4, 6});
  CHECK(site.account_required);
  CHECK(site.cores == 0);
}

TEST_CASE("mistakes in a profile are named with file, line and hint") {
  CHECK(refusal(kLeast + "coers = 4\n") ==
        "mine.ini:4: unknown name coers | did you mean cores? jobscripts/sites/README lists all "
        "names");
  CHECK(refusal(kLeast + "cores = many\n") ==
        "mine.ini:4: cores: 'many' is not a whole number, not negative | give a whole number, not "
        "negative");
  CHECK(refusal(kLeast + "cores = 4\ncores = 5\n") ==
        "mine.ini:5: cores is given twice | give it once");
  CHECK(
      refusal(kLeast + "cores\n") ==
      "mine.ini:4: 'cores' is not of the form NAME = VALUE | write one fact per line, e.g. cores = "
      "48; comments start with #");
  CHECK(refusal(kLeast + "stage = disk\n")
            .starts_with("mine.ini:4: stage: 'disk' is not one of "
                         "datawarp, localtmp, shm"));
  CHECK(refusal(kLeast + "queue = a 4-1 1:00:00\n").starts_with("mine.ini:4: queue: "));
  CHECK(refusal(kLeast + "queue = a 1-4 1:00:00 mesh more\n").starts_with("mine.ini:4: queue: "));
  CHECK(refusal("title = T\nscheduler = pjm\n").starts_with("mine.ini: launcher is missing"));
  CHECK(refusal(kLeast + "numa-domains = 0\n").starts_with("mine.ini: numa-domains"));
  CHECK_THROWS_WITH_AS(read_site_profile("no/such.ini"),
                       "cannot open no/such.ini: No such file or directory", UsageError);
}

TEST_CASE("sites are found by name or path") {
  CHECK(load_site("fugaku", profiles()).name == "fugaku");
  CHECK(load_site((profiles() / "sites/flow.ini").string(), "nowhere").name == "flow");
  const TempDirectory directory;
  CHECK_THROWS_WITH_AS(load_site(directory.path().string(), profiles()),
                       (directory.path().string() + " is a directory, not a regular file").c_str(),
                       UsageError);
  try {
    load_site("fugako", profiles());
    CHECK_MESSAGE(false, "nothing was thrown");
  } catch (const UsageError& error) {
    CHECK(std::string(error.what()) == "unknown site 'fugako'");
    CHECK(error.hint().starts_with("did you mean fugaku?"));
  }
}

TEST_CASE("profiles are found above the program, in the source tree or where they are installed") {
  const TempDirectory directory;
  const fs::path root = directory.path();
  fs::create_directories(root / "tree/jobscripts/sites");
  fs::create_directories(root / "prefix/share/halomesh/jobscripts/sites");
  CHECK(find_jobscripts(root / "tree/build/release/halomesh") == root / "tree/jobscripts");
  CHECK(find_jobscripts(root / "prefix/bin/halomesh") == root / "prefix/share/halomesh/jobscripts");
  CHECK_THROWS_AS(find_jobscripts(root / "other/bin/halomesh"), Error);
}

TEST_CASE("every profile holds what scripts need, with sources") {
  const std::vector<std::string> names = site_names(profiles());
  CHECK(names == std::vector<std::string>{"cori-knl", "deucalion-arm", "flow", "fugaku",
                                          "generic-pjm", "generic-slurm", "ookami",
                                          "perlmutter-cpu", "wisteria-o", "workstation"});
  for (const std::string& name : names) {
    CAPTURE(name);
    const SiteProfile site = load_site(name, profiles());
    const bool generic = name.starts_with("generic") || name == "workstation";
    CHECK((site.status == "current" || site.status == "historic"));
    CHECK(site.queue_option.empty() == (site.scheduler == Scheduler::kNone));
    CHECK(site.queues.empty() == generic);
    if (!generic) {
      CHECK(site.nodes > 0);
      CHECK(site.cores > 0);
      CHECK((site.cores - site.reserved_cores) % site.numa_domains == 0);
    }
    for (const Queue& queue : site.queues) {
      CHECK(queue.max_nodes <= site.nodes);
      CHECK(queue.modes.empty() == (site.scheduler != Scheduler::kPjm));
      CHECK(queue.seconds > site.end_margin_s);
    }
    std::ifstream file(profiles() / "sites" / (name + ".ini"));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CHECK(text.starts_with("# "));
    if (!generic) CHECK(text.find("https://") != std::string::npos);
  }
}

}  // namespace halomesh
