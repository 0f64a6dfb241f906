// SPDX-License-Identifier: Apache-2.0
// The sections of a report, one file each. One that has nothing to show is empty.
#pragma once

#include <string>

#include "src/apps/report/figure.hpp"
#include "src/apps/report/report_input.hpp"

namespace halomesh {

/// A sentence or two per group of runs: time, quality, rate, what limits.
std::vector<std::string> verdict(const ReportInput& input);

/// The options of a run, and what differs between runs.
Section options_section(const ReportInput& input);
/// Loss, validation MAE, learning rate and rate against epochs and time.
Section training_section(const ReportInput& input);
/// Parts of the time to solution, the score, staging and throughput.
Section time_section(const ReportInput& input);
/// Staging of each run.
Section staging_section(const ReportInput& input);
/// Time of a step by kind, phase and layer, and parallel efficiency.
Section phases_section(const ReportInput& input);
/// Speed of each phase against the machine's limits, from bench.
Section roofline_section(const ReportInput& input);
/// Batch size, epochs and throughput against the number of ranks.
Section scaling_section(const ReportInput& input);
/// Throughput of bench against ranks and local batch.
Section bench_section(const ReportInput& input);
/// Bandwidth of memory, reductions and input.
Section bandwidth_section(const ReportInput& input);
/// Time to solution of configurations that did not run.
Section extrapolation_section(const ReportInput& input);
/// Predictions beside targets.
Section predictions_section(const ReportInput& input);
/// One step of several ranks as a timeline.
Section timeline_section(const ReportInput& input);
/// Machine, versions and commands.
Section machine_section(const ReportInput& input);

/// All of them, warnings and the numbers as JSON.
Page make_page(const ReportInput& input);

/// The numbers behind the page; no more than some hundred values a run.
std::string raw_numbers(const ReportInput& input);

}  // namespace halomesh
