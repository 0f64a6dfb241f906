// SPDX-License-Identifier: Apache-2.0
// Starts the Python package, which has the commands that only read files.
#pragma once

#include <string>
#include <vector>

namespace halomesh {

/// Replaces this process by the Python package, which runs the command argv[0] with the arguments
/// after it. The interpreter is that of the environment variable HALOMESH_PYTHON, or else the one
/// found when the program was built; the package lies beside the program. Throws Error if either is
/// missing.
[[noreturn]] int run_analysis(int argc, char** argv);

/// Runs the package as a child instead, with this process's output and errors; true if it succeeds.
bool analysis_succeeds(std::vector<std::string> words);

}  // namespace halomesh
