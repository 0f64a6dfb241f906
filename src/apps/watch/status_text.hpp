// SPDX-License-Identifier: Apache-2.0
// The status of a run for people: a screen, or a line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/apps/watch/run_status.hpp"

namespace halomesh {

/// How many columns there are, and whether block characters may be used.
struct ScreenForm {
  std::size_t columns = 80;
  bool utf8 = false;
};

/// A curve of at most `columns` characters, each the mean of its share of `values` on a linear
/// scale from the least mean to the largest; '?' where no value is finite.
std::string sparkline(const std::vector<double>& values, std::size_t columns, bool utf8);

/// Lines of at most form.columns characters. `job_state` is what the scheduler says of the job; "".
std::vector<std::string> status_screen(const RunStatus& status, const std::string& job_state,
                                       const ScreenForm& form);

/// Everything that changes, in one line.
std::string status_line(const RunStatus& status, const std::string& job_state);

}  // namespace halomesh
