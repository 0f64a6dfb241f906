// SPDX-License-Identifier: Apache-2.0
// The version of the program, its commit and its compiler.
#pragma once

namespace halomesh {

/// "0.1.0".
const char* version();
/// The commit that was built, abbreviated, with "-dirty" where files differed; or "unknown".
const char* git_commit();
/// The Python that runs the package of the commands that only read files.
const char* built_for_python();
/// Name and version of the compiler.
const char* compiler();

}  // namespace halomesh
