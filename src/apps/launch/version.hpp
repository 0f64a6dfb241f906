// SPDX-License-Identifier: Apache-2.0
// What was built: the version of the program and where it came from.
// Knows nothing of the machine it runs on.
#pragma once

namespace halomesh {

/// "0.1.0".
const char* version();
/// The commit that was built, abbreviated, with "-dirty" where files differed; or "unknown".
const char* git_commit();
/// Name and version of the compiler.
const char* compiler();

}  // namespace halomesh
