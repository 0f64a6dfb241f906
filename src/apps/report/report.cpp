// SPDX-License-Identifier: Apache-2.0
// The command `report`: runs as one page with figures and tables. Needs no MPI.
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "joined.hpp"
#include "runtime/posix/atomic_file.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "src/apps/options/options.hpp"
#include "src/apps/report/figure_files.hpp"
#include "src/apps/report/html_page.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

Options report_options() {
  Options options(
      "report [options] RUN...",
      "Writes one HTML page about runs: what they reached, how fast, and where the time went; "
      "several\nruns are compared. RUN is the --out directory of train, an mllog.txt, a file of "
      "train --trace,\nbench --json, scaling or predict, or a table of results (CSV with the "
      "columns "
      "submission and minutes, a\nline per run).",
      "halomesh report runs/1 runs/2 bench.json --out report.html --figures figures");
  options.group("Report")
      .add<std::string>("out", "FILE", "report.html", "page to write; -o FILE for short")
      .add<std::string>("figures", "DIR", "",
                        "also write each figure into DIR, as ID.svg and its numbers as ID.csv")
      .add_choice("reference", {"on", "off"}, "on",
                  "show published results of CosmoFlow in MLPerf HPC v0.7 in grey")
      .add<double>("target", "MAE", 0.124,
                   "validation MAE to reach, for runs that do not record their own")
      .at_least(0)
      .group("Extrapolation")
      .add<std::string>("predict", "LIST", "",
                        "also extrapolate the time to solution of configurations that did not run: "
                        "REPLICASxPARTS/BATCH, e.g. 512x4x4x1/512,4096x4x1x1/4096")
      .add<std::string>("epochs-to-target", "N[+-S]", "",
                        "epochs that --predict assumes, with their standard deviation; default: "
                        "those of the runs with the same batch size");
  options.accept_arguments();
  return options;
}

ReportInput read_input(const Options& options) {
  ReportInput input;
  input.show_published = options.get<std::string>("reference") == "on";
  input.predict = parse_configurations(options.get<std::string>("predict"));
  if (const auto text = options.get<std::string>("epochs-to-target"); !text.empty())
    input.epochs_to_target = parse_epochs(text);
  for (const std::string& path : options.arguments())
    add_input(input, path, options.get<double>("target"));
  return input;
}

}  // namespace

int run_report(int argc, char** argv) {
  Options options = report_options();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::string& argument : arguments)
    if (argument == "-o") argument = "--out";
  if (Options::asks_for_help(argc, argv)) {
    std::cout << options.help();
    return kExitDone;
  }
  options.parse(arguments);
  if (options.arguments().empty())
    throw UsageError("no run was given", "give the --out directory of each run");
  const std::filesystem::path out = options.get<std::string>("out");
  require_writable(out);
  ReportInput input = read_input(options);
  for (const std::string& problem : input.problems) std::cerr << "WARNING: " << problem << '\n';
  require(!input.empty(), "nothing could be reported",
          "give the directory of a run, or a file of bench --json, predict or train --trace");
  input.command = "halomesh report " + joined(arguments, " ");
  const Page page = make_page(input);
  write_file_atomically(out, html(page));
  std::cout << joined(page.verdict, "\n") << "\nreport in " << out.string();
  if (const auto figures = options.get<std::string>("figures"); !figures.empty())
    std::cout << ", " << write_figures(page.sections, figures) << " figures in " << figures;
  std::cout << std::endl;
  return kExitDone;
}

}  // namespace halomesh
