// SPDX-License-Identifier: Apache-2.0
// Job scripts: one for every profile, and their content. test/system runs them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "src/apps/plan/site_profile.hpp"
#include "test/apps/plan/jobscript_scene.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

bool shell_accepts(const std::string& command, const std::string& text) {
  const TempDirectory directory;
  const fs::path file = directory.path() / "job.sh";
  std::ofstream(file) << text;
  const std::string line = command + ' ' + file.string();
  return std::system(line.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
}

bool have_shellcheck() {
  return std::system("command -v shellcheck >/dev/null 2>&1") ==
         0;  // NOLINT(concurrency-mt-unsafe)
}

void check_shell(const std::string& text) {
  CHECK(text.starts_with("#!/bin/bash\n"));
  CHECK(text.find("@{") == std::string::npos);
  CHECK(shell_accepts("bash -n", text));
  if (have_shellcheck()) CHECK(shell_accepts("shellcheck --severity=style", text));
}

/// sbatch(1) reads directives up to the first command, each option once.
int check_slurm_directives(const std::string& text) {
  std::istringstream lines(text);
  std::set<std::string> given;
  bool commands = false;
  int directives = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#SBATCH ") && !line.starts_with("#DW ")) {
      commands = commands || !line.starts_with('#');
      continue;
    }
    CAPTURE(line);
    CHECK(!commands);
    ++directives;
    if (line.starts_with("#DW ")) continue;
    const std::string option = line.substr(8, line.find('=') - 8);
    CHECK(option.starts_with("--"));
    CHECK(given.insert(option).second);
  }
  for (const char* option : {"--nodes", "--ntasks-per-node", "--cpus-per-task", "--time",
                             "--signal", "--requeue", "--open-mode", "--output"})
    CHECK(given.contains(option));
  return directives;
}

}  // namespace

TEST_CASE("every profile gives a script that the shell accepts") {
  int compared = 0;
  for (const std::string& site : site_names(source("jobscripts"))) {
    CAPTURE(site);
    const bool one_node = site == "workstation";
    for (const std::string stage : {"0", "2"}) {
      if (stage == "2" && load_site(site, source("jobscripts")).stage == StageKind::kNone) continue;
      CAPTURE(stage);
      Words more = {"--nodes", one_node ? "1" : "8", "--batch", "384", "--stage-gib", stage};
      if (site == "generic-slurm" || one_node) more.insert(more.end(), {"--cores", "48"});
      const std::string text = script(site, more);
      check_shell(text);
      CHECK(has_line(text, "program=/opt/halomesh"));
      CHECK(has_line(text, "  --out '/scratch/it'\\''s a run'"));
      CHECK(text.find("--wall-limit \"$wall_limit\"") != std::string::npos);
      CHECK((text.find("--stage-dir") != std::string::npos ||
             text.find("$DW_JOB") != std::string::npos) == (stage == "2"));
      if (text.find("#SBATCH") != std::string::npos) CHECK(check_slurm_directives(text) > 8);
      ++compared;
    }
  }
  CHECK(compared >= 15);
}

TEST_CASE("a script for Fugaku has the site's directives") {
  const std::string text =
      script("fugaku", {"--nodes", "512", "--parts", "4x4x1", "--data", "/vol0004/a/data", "--time",
                        "04:00:00", "--stage-gib", "80", "--account", "hp1"});
  for (const char* line :
       {"#PJM -L \"rscgrp=large\"", "#PJM -L \"node=8x8x8:torus\"", "#PJM -L \"elapse=04:00:00\"",
        "#PJM -L \"freq=2200\"", "#PJM -L \"eco_state=0\"", "#PJM --mpi \"proc=2048\"",
        "#PJM --mpi \"max-proc-per-node=4\"", "#PJM --llio \"localtmp-size=80Gi\"",
        "#PJM -x \"PJM_LLIO_GFSCACHE=/vol0004\"", "#PJM -g \"hp1\"", "export OMP_NUM_THREADS=12",
        "  --stage-dir \"$PJM_LOCALTMP\"", "wall_limit=$((14400 - SECONDS - 180))",
        "export OMPI_MCA_plm_ple_memory_allocation_policy=bind_local",
        "mpiexec -n 2048 -stdout-proc output.%j/%/1000r/stdout -stderr-proc "
        "output.%j/%/1000r/stderr \\"}) {
    CAPTURE(line);
    CHECK(has_line(text, line));
  }
  // One rank on all four memory groups needs pages where they are touched.
  const std::string wide = script("fugaku", {"--nodes", "8", "--ranks-per-node", "1"});
  CHECK(has_line(wide, "export XOS_MMM_L_PAGING_POLICY=demand:demand:demand"));
  CHECK(has_line(wide, "#PJM -L \"node=8\""));
  CHECK(has_line(wide, "export OMP_NUM_THREADS=48"));
  CHECK(wide.find("bind_local") == std::string::npos);
}

TEST_CASE("scripts for Slurm sites have the sites' directives") {
  const std::string cori =
      script("cori-knl", {"--nodes", "1024", "--stage-gib", "10", "--time", "1-00:00:00"});
  for (const char* line :
       {"#SBATCH --constraint=knl,quad,cache", "#SBATCH --core-spec=4", "#SBATCH --time=24:00:00",
        "#SBATCH --qos=regular", "#SBATCH --cpus-per-task=256", "#SBATCH --signal=USR2@120",
        "#DW jobdw capacity=10240GB access_mode=striped type=scratch",
        "#DW stage_in source=/scratch/data destination=$DW_JOB_STRIPED/data type=directory",
        "  --data \"$DW_JOB_STRIPED/data\""}) {
    CAPTURE(line);
    CHECK(has_line(cori, line));
  }
  const std::string large = script("perlmutter-cpu", {"--nodes", "256"});
  CHECK(large.find("--bcast=") != std::string::npos);
  CHECK(has_line(large, "#SBATCH --cpus-per-task=32"));
  CHECK(large.find("sbatch --account=ACCOUNT SCRIPT") != std::string::npos);
  CHECK(script("perlmutter-cpu", {"--nodes", "8"}).find("--bcast=") == std::string::npos);

  const Words cluster = {"--nodes", "4", "--cores", "48", "--ranks-per-node", "4"};
  const std::string srun = script("generic-slurm", cluster);
  CHECK(srun.find("srun --wait=5 --cpus-per-task=12 --mpi=pmix --cpu-bind=cores") !=
        std::string::npos);
  Words by_mpirun = cluster;
  by_mpirun.insert(by_mpirun.end(), {"--launcher", "mpirun"});
  const std::string mpirun = script("generic-slurm", by_mpirun);
  check_shell(mpirun);
  CHECK(has_line(mpirun, "#SBATCH --signal=B:USR2@120"));
  CHECK(has_line(mpirun, "export OMPI_MCA_odls_base_sigkill_timeout=2"));
  CHECK(mpirun.find("mpirun -n 16 --map-by ppr:4:node:PE=12 --bind-to core") != std::string::npos);
}

TEST_CASE("options of train are passed on and checked, everything else is this command's") {
  const std::string text = script("ookami", {"--nodes", "2", "--batch=64", "--evaluate-first",
                                             "--lr", "0.5", "--", "--seed", "7"});
  for (const char* line : {"  --batch 64", "  --evaluate-first", "  --lr 0.5", "  --seed 7"}) {
    CAPTURE(line);
    CHECK(has_line(text, line));
  }
  CHECK(has_line(printed({"--profiles", source("jobscripts"), "--site", "ookami", "--data", "d",
                          "--batch", "4", "--time", "01:00:00"}),
                 "  --out run"));
  // The batch is that of an instance on a quarter of the 8 ranks.
  CHECK(has_line(script("ookami", {"--nodes", "2", "--instances", "4", "--batch", "2"}),
                 "  --instances 4"));
  CHECK(
      has_line(script("ookami", {"--model", "unet3d", "--input", "170x200x190x1", "--pad", "-2.2"}),
               "  --pad -2.2"));
  CHECK(has_line(script("ookami", {"--modules", "a,b/2"}), "module load b/2"));
  CHECK(script("ookami", {"--modules", "none"}).find("module load") == std::string::npos);
  CHECK(refusal("ookami", {"--lr", "fast"}).starts_with("--lr: 'fast' is not a number"));
  CHECK(refusal("ookami", {"--nods", "2"})
            .starts_with("unknown option --nods | did you mean "
                         "--nodes?"));
  CHECK(refusal("ookami", {"--momentun", "2"}).find("--momentum?") != std::string::npos);
  CHECK(refusal("ookami", {"--wall-limit", "9"}).starts_with("--wall-limit is set by the script"));
  CHECK(refusal("ookami", {"--config", "no.cfg"}).starts_with("--config no.cfg cannot be read"));
}

TEST_CASE("a rank map is written beside the script that names it") {
  const TempDirectory directory;
  const std::string map = (directory.path() / "map").string();
  const std::string text =
      script("fugaku", {"--nodes", "8", "--parts", "2x2x2", "--rank-map", map});
  CHECK(has_line(text, "#PJM --mpi \"rank-map-hostfile=" + map + '"'));
  CHECK(has_line(text, "#PJM -L \"node=2x2x2:torus\""));
  std::ifstream file(map);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) CHECK(line.size() == 7);
  CHECK(lines == 32);
}

TEST_CASE("the ready-made scripts are what the program prints") {
  std::ifstream commands(source("jobscripts/examples/commands"));
  const fs::path before = fs::current_path();
  int made = 0, compared = 0;
  for (std::string line; std::getline(commands, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream stream(line);
    std::string file;
    stream >> file;
    CAPTURE(file);
    Words words(std::istream_iterator<std::string>(stream), {});
    if (line.find(" --data ") == std::string::npos)
      words.insert(words.end(), {"--data", "data/cosmoUniverse", "--out",
                                 "runs/" + fs::path(file).stem().string()});
    words.insert(words.end(), {"--program", "build/release/halomesh"});
    // The script must not depend on where the profiles are.
    const Words profiles = {"--profiles", source("jobscripts")};
    words.insert(words.begin(), profiles.begin(), profiles.end());
    fs::current_path(source("."));
    std::string text = printed(words);
    fs::current_path(before);
    check_shell(text);
    ++made;
    std::ifstream stored(source("jobscripts/examples/" + file));
    if (!stored) continue;  // of each scheduler one is kept; `make examples` writes all
    const std::string mine = " --profiles " + profiles[1];
    REQUIRE(text.find(mine) != std::string::npos);
    text.erase(text.find(mine), mine.size());
    CHECK(std::string{std::istreambuf_iterator<char>(stored), {}} == text);
    ++compared;
  }
  CHECK(made == 11);
  CHECK(compared == 3);
}

TEST_CASE("a scaling study is a job like training, on Slurm, PJM and a workstation") {
  for (const char* site : {"perlmutter-cpu", "fugaku", "workstation"}) {
    CAPTURE(site);
    const std::string text = printed({"--profiles",
                                      source("jobscripts"),
                                      "--site",
                                      site,
                                      "--nodes",
                                      site == std::string("workstation") ? "1" : "4",
                                      "--time",
                                      "01:00:00",
                                      "--program",
                                      "/opt/halomesh",
                                      "--scaling",
                                      "--cores",
                                      site == std::string("workstation") ? "4" : "0",
                                      "--ranks-per-node",
                                      site == std::string("workstation") ? "2" : "0",
                                      "--ranks",
                                      "1,2",
                                      "--figures",
                                      "it's figures",
                                      "--model",
                                      "unet3d",
                                      "--pad",
                                      "0",
                                      "--repeats=5"});
    check_shell(text);
    CHECK(text.find("\"$program\" scaling \"${scaling[@]}\" --wall-limit") != std::string::npos);
    CHECK(has_line(text, "scaling=("));
    CHECK(has_line(text, "  --ranks '1,2'"));
    CHECK(has_line(text, "  --pad 0"));
    CHECK(has_line(text, "  --repeats 5"));
    CHECK(text.find("the study is done") != std::string::npos);
    CHECK(text.find("measures scaling on") != std::string::npos);
  }
}

TEST_CASE("a scaling study that the job cannot run is refused") {
  const auto refused = [](const Words& more) {
    Words words{"--profiles", source("jobscripts"), "--site",   "fugaku", "--nodes", "2",
                "--time",     "01:00:00",           "--scaling"};
    words.insert(words.end(), more.begin(), more.end());
    try {
      printed(words);
    } catch (const UsageError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string("nothing was thrown");
  };
  CHECK(refused({"--ranks", "1,16"}) ==
        "--ranks names 16 ranks, but the job has 8 on 2 nodes | use --nodes 4, or leave 16 out");
  CHECK(refused({"--stage-gib", "1"}).find("--stage-gib has no meaning") == 0);
  CHECK(refused({"--epochs", "3"}).find("unknown option --epochs") == 0);
  CHECK(refused({"--wall-limit", "3"}).find("--wall-limit is set by the script") == 0);
}

}  // namespace halomesh
