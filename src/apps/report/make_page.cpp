// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "joined.hpp"
#include "src/apps/options/network_options.hpp"
#include "src/apps/report/sections.hpp"

namespace halomesh {
namespace {

/// The options that define it: "model cosmoflow, input 128x128x128x4, kernel 2".
std::string network_of(const RunFiles& files) {
  std::vector<std::string> texts;
  for (const std::string& name : network_option_names())
    if (const std::string value = option_of(files, name); !value.empty())
      texts.push_back(fmt::format("{} {}", name, value));
  return joined(texts, ", ");
}

/// Loss and rates of different networks or data sets cannot be compared.
void warn_of_differences(const std::vector<RunNumbers>& runs, std::vector<std::string>& warnings) {
  std::set<std::string> networks, samples;
  for (const RunNumbers& run : runs) {
    if (run.files == nullptr || !run.files->run().is_object()) continue;
    networks.insert(network_of(*run.files));
    if (run.training_samples > 0) samples.insert(std::to_string(run.training_samples));
  }
  if (networks.size() > 1)
    warnings.push_back("The runs train different networks: " + joined(networks, "; "));
  if (samples.size() > 1)
    warnings.push_back("The runs train on different numbers of samples: " + joined(samples, ", "));
}

void warn_of_slow_kernels(const RunNumbers& run, std::vector<std::string>& warnings) {
  if (run.files == nullptr || !run.files->run().is_object() ||
      !run.files->run().contains("kernels"))
    return;
  for (const auto& line : run.files->run()["kernels"])
    if (line.is_string() && line.get<std::string>().find("ref") != std::string::npos)
      warnings.push_back(fmt::format("{}: slow reference kernel of oneDNN in {}", run.name,
                                     line.get<std::string>()));
}

}  // namespace

Page make_page(const ReportInput& input) {
  Page page;
  std::vector<std::string> names;
  for (const RunNumbers& run : input.runs) names.push_back(run.name);
  for (const BenchFile& bench : input.benches) names.push_back(bench.name);
  page.title = names.empty() ? "halomesh report"
               : names.size() <= 3
                   ? "halomesh: " + joined(names, ", ")
                   : fmt::format("halomesh: {} and {} more", names[0], names.size() - 1);
  page.verdict = verdict(input);
  page.warnings = input.problems;
  warn_of_differences(input.runs, page.warnings);
  for (const RunNumbers& run : input.runs) warn_of_slow_kernels(run, page.warnings);
  for (Section section :
       {options_section(input), training_section(input), time_section(input), phases_section(input),
        roofline_section(input), bench_section(input), scaling_section(input),
        extrapolation_section(input), bandwidth_section(input), predictions_section(input),
        timeline_section(input), staging_section(input), machine_section(input)})
    if (!section.figures.empty() || !section.tables.empty() || !section.paragraphs.empty())
      page.sections.push_back(std::move(section));
  page.raw_json = raw_numbers(input);
  return page;
}

}  // namespace halomesh
