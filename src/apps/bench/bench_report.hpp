// SPDX-License-Identifier: Apache-2.0
// Prints the measurements as a table, and as JSON with all figures.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "src/apps/bench/bench_run.hpp"
#include "src/apps/bench/machine_peak.hpp"

namespace halomesh {

/// Prints one line such as "FMA peak 310 GF/s fp32, ...".
void print_peak(std::ostream& out, const MachinePeak& peak);

/// Prints a headline and one row per phase; `threads` are those of a rank. Phases below a
/// thousandth of the step share one row.
void print_result(std::ostream& out, const BenchResult& result, const MachinePeak& peak,
                  int threads);

/// All figures and phases, with the units in the names of the figures.
nlohmann::ordered_json to_json(const BenchResult& result, const MachinePeak& peak);
nlohmann::ordered_json to_json(const MachinePeak& peak);

}  // namespace halomesh
