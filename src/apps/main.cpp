// The program: finds the command and runs it; the last to catch what went wrong.
// Knows no command's options.
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
#include "src/apps/commands.hpp"
#include "src/apps/nearest.hpp"
#include "src/apps/parallel.hpp"
#include "src/apps/version.hpp"

namespace halomesh {
namespace {

struct Command {
  const char *name, *help;
  int (*run)(int argc, char** argv);
};

constexpr std::array<Command, 10> kCommands = {{
    {"synth", "make a data set of synthetic universes", run_synth},
    {"convert", "pack a data set of any format into an archive", run_convert},
    {"train", "train a network", run_train},
    {"eval", "measure the quality of a checkpoint on a data set", run_eval},
    {"predict", "write a checkpoint's predictions for a data set", run_predict},
    {"bench", "measure training and evaluation, layer by layer", run_bench},
    {"plan", "print who holds, needs and sends what on a mesh", run_plan},
    {"jobscript", "print a job script for a site", run_jobscript},
    {"mlperf-summary", "print the runs of MLPerf logs and their score", run_mlperf_summary},
    {"info", "print versions, machine and what every rank runs on", run_info},
}};

void print_help() {
  std::cout << "halomesh trains 3-D convolutional networks on CPU clusters, with samples cut into\n"
               "blocks over groups of MPI ranks.\n\n"
               "usage: halomesh COMMAND [options]\n\n";
  for (const Command& c : kCommands)
    std::cout << "  " << c.name << std::string(16 - std::strlen(c.name), ' ') << c.help << '\n';
  std::cout << "\nhalomesh COMMAND --help lists a command's options; halomesh --version says what "
               "this is.\nCommands that train or read data run under mpirun, srun or mpiexec.\n";
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
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(argc - 1, argv + 1);
    names.emplace_back(command.name);
  }
  throw UsageError(cat("unknown command '", name, '\''),
                   cat("did you mean ", nearest(name, names), "? halomesh --help lists all"));
}

/// A pipe whose reader has had enough is no failure.
bool reader_is_gone() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

/// What was printed must have arrived.
int finish_output(int exit_code) {
  std::cout.flush();
  if (std::cout || exit_code != kExitDone || reader_is_gone()) return exit_code;
  throw Error("standard output cannot be written", "check the file or disk it goes to");
}

}  // namespace
}  // namespace halomesh

int main(int argc, char** argv) {
  using namespace halomesh;
  // A pipe whose reader is gone must not end a run: the write fails instead.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return finish_output(run_command(argc, argv));
  } catch (...) {
    const Failure failure = describe(std::current_exception(), 0);
    std::fputs(failure.text.c_str(), stderr);
    return failure.exit_code;
  }
}
