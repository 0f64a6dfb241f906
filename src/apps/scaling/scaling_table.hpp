// SPDX-License-Identifier: Apache-2.0
// A scaling study as text.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "src/apps/scaling/scaling_plan.hpp"
#include "src/apps/scaling/scaling_record.hpp"

namespace halomesh {

/// Prints the number of cases, and the meshes that are left out and why.
void print_plan(std::ostream& out, const ScalingPlan& plan, std::int64_t world_ranks);

/// Prints a table with a row per case, by ranks, and columns of predictions if any case has one.
/// Prints nothing without runs.
void print_summaries(std::ostream& out, const std::vector<ScalingRecord::Summary>& runs,
                     bool strong);

}  // namespace halomesh
