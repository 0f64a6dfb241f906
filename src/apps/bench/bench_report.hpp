// SPDX-License-Identifier: Apache-2.0
// Prints the measurements as a table, and as JSON with all figures.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "src/apps/bench/bench_run.hpp"
#include "src/apps/bench/machine_peak.hpp"

namespace halomesh {

/// "FMA peak 310 GF/s fp32, ..." on one line.
void print_peak(std::ostream& out, const MachinePeak& peak);

/// A headline and one row per phase; `threads` per rank. Phases below a thousandth of the step are
/// summed in one row.
void print_result(std::ostream& out, const BenchResult& result, const MachinePeak& peak,
                  int threads);

/// Every figure with its unit in its name; all phases.
nlohmann::ordered_json to_json(const BenchResult& result, const MachinePeak& peak);
nlohmann::ordered_json to_json(const MachinePeak& peak);

}  // namespace halomesh
