// SPDX-License-Identifier: Apache-2.0
// The version of the program, its commit and its compiler.
#pragma once

namespace halomesh {

/// The version, such as "0.1.0".
const char* version();
/// The abbreviated commit of the build, with "-dirty" if files differed; or "unknown".
const char* git_commit();
/// The Python that runs the package with the commands that only read files.
const char* built_for_python();
/// The name and version of the compiler.
const char* compiler();

}  // namespace halomesh
