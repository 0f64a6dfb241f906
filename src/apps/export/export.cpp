// SPDX-License-Identifier: Apache-2.0
// The command `export`: the records of a run in the format of another program. Needs no MPI.
#include <iostream>

#include "src/apps/export/tensorboard.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/options.hpp"

namespace halomesh {

int run_export(int argc, char** argv) {
  Options options("export tensorboard RUN DIR",
                  "Writes the curves of a run (its --out directory) to DIR as event files of "
                  "TensorBoard, which\nWeights & Biases and Aim import as well. The run may still "
                  "be training; a repeated export\nreplaces the files in DIR. Use one directory "
                  "per run.",
                  "halomesh export tensorboard run board/run");
  options.accept_arguments().parse(argc, argv);
  if (options.help_wanted()) {
    std::cout << options.help();
    return kExitDone;
  }
  const std::vector<std::string>& arguments = options.arguments();
  if (arguments.size() != 3)
    throw UsageError(fmt::format("export got {} arguments instead of 3", arguments.size()),
                     "give format, run and directory: halomesh export tensorboard run board/run");
  if (arguments[0] != "tensorboard")
    throw UsageError(fmt::format("unknown format '{}'", arguments[0]),
                     "the only format is tensorboard");
  const RunFiles run(arguments[1]);
  for (const std::string& problem : run.problems()) std::cerr << "WARNING: " << problem << '\n';
  const auto sessions = tensorboard_sessions(run);
  std::size_t events = 0;
  for (const TensorboardSession& session : sessions) events += session.events.size();
  require(events > 0, text("{} holds no steps yet", run.directory().string()),
          "export it after the first step");
  for (const std::filesystem::path& file : write_tensorboard(sessions, arguments[2]))
    std::cout << file.string() << '\n';
  std::cout << events << " events of " << run.steps().size() << " steps; show them with\n  "
            << "tensorboard --logdir " << arguments[2] << '\n';
  return kExitDone;
}

}  // namespace halomesh
