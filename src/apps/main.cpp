// SPDX-License-Identifier: Apache-2.0
// The main program: finds the command, runs it and reports its errors.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/apps/launch/analysis.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/launch/version.hpp"
#include "src/apps/launch/waiting.hpp"
#include "src/apps/options/nearest.hpp"

namespace halomesh {
namespace {

struct Command {
  const char *name, *help;
  int (*run)(int argc, char** argv);
};

#ifdef HALOMESH_SIMULATED  // simulated ranks compute nothing and have no data
constexpr std::array<Command, 1> kCommands = {
    {{"bench", "simulate training, layer by layer, on ranks of another machine", run_bench}}};
#else
constexpr std::array<Command, 15> kCommands = {{
    {"synth", "generate a data set of synthetic universes", run_synth},
    {"convert", "convert a data set of any supported format into an archive", run_convert},
    {"train", "train a network", run_train},
    {"eval", "evaluate a checkpoint on a data set", run_eval},
    {"predict", "write the predictions of a checkpoint for a data set", run_predict},
    {"bench", "measure the speed of training and evaluation, layer by layer", run_bench},
    {"scaling", "measure strong and weak scaling on several numbers of ranks", run_scaling},
    {"study", "train over a grid of options and seeds, side by side", run_study},
    {"plan", "print the geometry of a network on a mesh: boxes, messages, memory", run_plan},
    {"jobscript", "print a job script for a site", run_jobscript},
    {"mlperf-summary", "summarise MLPerf logs and print their score", run_analysis},
    {"watch", "show how far a run is, how fast, and whether it is still going", run_analysis},
    {"export", "write the curves of a run for TensorBoard; export onnx: a trained network",
     run_analysis},
    {"report", "write a page about runs: figures, tables, comparison", run_analysis},
    {"info", "print versions, the machine and the binding of every rank", run_info},
}};
#endif

void print_help() {
  std::cout << "halomesh trains 3-D convolutional networks on CPU clusters, with samples cut into\n"
               "blocks over groups of MPI ranks.\n\n"
               "usage: halomesh COMMAND [options]\n\n";
  for (const Command& c : kCommands)
    std::cout << "  " << c.name << std::string(16 - std::strlen(c.name), ' ') << c.help << '\n';
  std::cout
      << "\nhalomesh COMMAND --help lists the options of a command; halomesh --version prints the "
         "version.\nCommands that train or read data run under mpirun, srun or mpiexec, e.g.\n"
         "  mpirun -n 4 halomesh train --data data --out run --parts 2x1x1 --batch 8\n";
}

int run_command(int argc, char** argv) {
  if (argc < 2) throw UsageError("no command was given", "halomesh --help lists the commands");
  const std::string name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    print_help();
    return kExitDone;
  }
  if (name == "--version") {
    std::cout << "halomesh " << version() << " (" << git_commit() << ")\n";
    return kExitDone;
  }
#ifndef HALOMESH_SIMULATED
  if (name == "export" && argc > 2 && std::string(argv[2]) == "onnx")
    return run_export_onnx(argc - 2, argv + 2);
#endif
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
    names.emplace_back(command.name);
  }
  throw UsageError(fmt::format("unknown command '{}'", name),
                   fmt::format("did you mean {}? halomesh --help lists all", nearest(name, names)));
}

/// True if standard output is a pipe closed by its reader, such as head, which is no failure.
bool reader_is_gone() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

/// Reports output that could not be written.
int finish_output(int exit_code) {
  std::cout.flush();
  if (std::cout || exit_code != kExitDone || reader_is_gone()) return exit_code;
  throw Error("standard output cannot be written", "check the file or disk it goes to");
}

}  // namespace
}  // namespace halomesh

int main(int argc, char** argv) {
  using namespace halomesh;
  wait_considerately(argv);
  // Neither a closed pipe nor a limit on file sizes may end a run: the write fails instead.
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  try {
    return finish_output(run_command(argc, argv));
  } catch (...) {
    const Failure failure = describe(std::current_exception(), 0);
    std::fputs(failure.text.c_str(), stderr);
    return failure.exit_code;
  }
}
