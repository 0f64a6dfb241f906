// SPDX-License-Identifier: Apache-2.0
// What `jobscript` refuses: messages name the limit and a valid value.
#include <doctest/doctest.h>

#include "test/apps/plan/jobscript_scene.hpp"

namespace halomesh {

TEST_CASE("a job for which a node has no memory is refused with the need") {
  const auto with = [](const std::string& batch, const std::string& parts) {
    return refusal(
        "fugaku", {"--nodes", "4", "--batch", batch, "--parts", parts, "--input", "512x512x512x4"});
  };
  const std::string refused = with("16", "1x1x1");
  CAPTURE(refused);
  CHECK(refused.starts_with("4 ranks of "));
  CHECK(refused.find(" GiB per node, but a node of fugaku has 32 | use more --parts") !=
        std::string::npos);
  CHECK(with("1", "4x2x2") == "nothing was thrown");
}

TEST_CASE("a profile that does not know a node says what the job needs of it") {
  const auto told = [](Words words) {
    const CapturedOutput captured;
    words.insert(words.begin(), "jobscript");
    words.insert(words.end(), {"--nodes", "1", "--cores", "112"});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    CHECK(run_jobscript(static_cast<int>(argv.size()), argv.data()) == 0);
    return captured.err.str();
  };
  const std::string one =
      told(request("generic-slurm", {"--batch", "1", "--model", "unet3d", "--input",
                                     "256x256x256x1", "--lr", "0.1"}));
  CAPTURE(one);
  const std::string note =
      "note: the profile generic-slurm does not say what memory a node has; this job needs ";
  REQUIRE(one.find(note) != std::string::npos);
  CHECK(std::stod(one.substr(one.find(note) + note.size())) > 20);
  const std::string domains =
      "WARNING: the 112 threads of the only rank of a node may be spread over NUMA domains";
  CHECK(one.find(domains) != std::string::npos);
  CHECK(told(request("generic-slurm", {"--batch", "8", "--ranks-per-node", "8"})).find(domains) ==
        std::string::npos);
  CHECK(told({"--profiles", source("jobscripts"), "--site", "generic-slurm", "--time", "01:00:00",
              "--scaling"})
            .find(domains) != std::string::npos);
}

TEST_CASE("what a site does not have is refused with the limit") {
  struct Row {
    std::string site;
    Words more;
    std::string refusal;
  };
  const std::vector<Row> rows = {
      {"fugaku",
       {"--nodes", "8", "--ranks-per-node", "49"},
       "49 ranks x 1 thread per node are more than the 48 cores that a job may use on a node of "
       "fugaku | use --ranks-per-node 48 and --threads 1, or fewer"},
      {"cori-knl",
       {"--ranks-per-node", "4", "--threads", "17"},
       "4 ranks x 17 threads per node are more than the 64 cores that a job may use on a node of "
       "cori-knl | use --ranks-per-node 4 and --threads 16, or fewer"},
      {"fugaku",
       {"--stage-gib", "88"},
       "--stage-gib 88: fugaku gives at most 93615751168 bytes per node | ask for at most 87 GiB "
       "per node: more nodes or more parts leave less data to each"},
      {"wisteria-o",
       {"--stage-gib", "1"},
       "--stage-gib: no node-local space is known on wisteria-o | leave it out, or name a "
       "directory that every node has: --stage-dir DIR"},
      {"fugaku",
       {"--nodes", "384", "--shape", "4x6x15"},
       "--shape 4x6x15 holds 360 nodes, not the 384 of --nodes | e.g. --shape 6x8x8"},
      {"fugaku",
       {"--nodes", "800", "--shape", "80x10"},
       "--shape 80x10 does not fit into the 48x69x48 nodes of fugaku | e.g. --shape 8x10x10"},
      {"fugaku",
       {"--nodes", "400", "--time", "24:00:01"},
       "400 nodes for 24:00:01 are not within any queue of fugaku | keep to the limits of small (1 "
       "to 384 nodes, 72:00:00), large (385 to 82944 nodes, 24:00:00)"},
      {"ookami",
       {"--nodes", "33", "--queue", "short"},
       "33 nodes for 01:00:00 are not within --queue short | keep to the limits of short (1 to 32 "
       "nodes, 04:00:00)"},
      {"deucalion-arm",
       {"--queue", "norml-arm"},
       "--queue norml-arm: deucalion-arm has no such queue | did you mean normal-arm? It has: "
       "normal-arm (1 to 1632 nodes, 48:00:00)"},
      {"ookami", {"--nodes", "175"}, "--nodes 175: ookami has 174 nodes | ask for at most 174"},
      {"workstation", {"--nodes", "2"}, "--nodes 2: workstation has 1 node | ask for at most 1"},
      {"fugaku",
       {"--nodes", "3", "--parts", "4x2x1"},
       "12 ranks cannot be divided into groups of 8 parts (--parts 4x2x1) | start 8 or 16 ranks, "
       "or choose parts whose product divides 12"},
      {"fugaku",
       {"--nodes", "3", "--batch", "16"},
       "a batch of 16 samples cannot be shared by 12 replicas | use --batch 12 or 24"},
      {"fugaku",
       {"--nodes", "3", "--instances", "5"},
       "--instances 5 does not divide the 12 ranks of the job | use --nodes 5, or a number that "
       "divides the ranks"},
      {"fugaku",
       {"--nodes", "3", "--instances", "3", "--batch", "6"},
       "a batch of 6 samples cannot be shared by 4 replicas | use --batch 4 or 8"},
      {"fugaku",
       {"--time", "00:03:00"},
       "--time 00:03:00 leaves no time for training besides the 180 s that a clean stop may take | "
       "ask for more "
       "than 00:03:00"},
      {"fugaku",
       {"--nodes", "400", "--allocation", "noncont"},
       "--allocation noncont is not possible in the queue large | use torus"},
      {"ookami",
       {"--rank-map", "map"},
       "--shape, --allocation and --rank-map have no meaning on ookami | leave them out: only PJM "
       "lets a job choose its nodes"},
      {"fugaku", {"--launcher", "srun"}, "--launcher srun is not possible on fugaku | use mpiexec"},
      {"generic-slurm",
       {},
       "the profile generic-slurm does not say how many cores a node has | give --cores N, or both "
       "--ranks-per-node N and --threads N"},
      {"fugaku", {"--cores", "52"}, "--cores 52: a node of fugaku has 48 | give at most 48"},
      {"fugaku",
       {"--time", "4"},
       "--time: '4' is not a duration | give hours, minutes and seconds, e.g. --time 04:00:00 or "
       "1-12:00:00"},
      {"cori-knl",
       {"--data", "data", "--stage-gib", "1"},
       "--data data cannot be copied into a burst buffer | give an absolute path without spaces"},
      {"ookami",
       {"--stage-gib", "1", "--stage-dir", "/tmp/x"},
       "--stage-gib chooses the staging directory, but --stage-dir names another | give one of "
       "them"},
      {"ookami",
       {"--name", "a b"},
       "--name 'a b' cannot be the name of a job | use letters, digits, '-', '_' and '.'"},
      {"ookami",
       {"--account", "my acc"},
       "--account 'my acc' cannot be written to a job script | use letters, digits and the "
       "characters _ - + = . / : % @ ^ alone"},
      {"ookami",
       {"--modules", "gcc/13,$(touch X)"},
       "--modules '$(touch X)' cannot be written to a job script | use letters, digits and the "
       "characters _ - + = . / : % @ ^ alone"},
      {"ookami",
       {"--mpi-plugin", "pmix;id"},
       "--mpi-plugin 'pmix;id' cannot be written to a job script | use letters, digits and the "
       "characters _ - + = . / : % @ ^ alone"},
      {"generic-slurm",
       {"--cores", "4", "--queue", "a`id`"},
       "--queue 'a`id`' cannot be written to a job script | use letters, digits and the "
       "characters _ - + = . / : % @ ^ alone"},
      {"fugaku",
       {"--volumes", "/vol1:/vol 2"},
       "--volumes '/vol1:/vol 2' cannot be written to a job script | use letters, digits and the "
       "characters _ - + = . / : % @ ^ alone"},
      {"fugaku",
       {"--nodes", "384", "--rank-map", "map'\"$(id)"},
       "--rank-map 'map'\"$(id)' cannot be written to a job script | use letters, digits and the "
       "characters _ - + = . / : % @ ^ alone"},
      {"ookami",
       {"--account", "a\n#SBATCH --nodes=2"},
       "an argument contains a line break | leave it out"},
  };
  int compared = 0;
  for (const Row& row : rows) {
    CAPTURE(row.site);
    CHECK(refusal(row.site, row.more) == row.refusal);
    ++compared;
  }
  CHECK(compared == static_cast<int>(rows.size()));
}

}  // namespace halomesh
