// SPDX-License-Identifier: Apache-2.0
// The version of the program; the only file that is recompiled for every commit.
#include "src/apps/launch/version.hpp"

#ifndef HALOMESH_VERSION
#define HALOMESH_VERSION "unknown"
#endif
#ifndef HALOMESH_GIT_COMMIT
#define HALOMESH_GIT_COMMIT "unknown"
#endif
#ifndef HALOMESH_PYTHON
#define HALOMESH_PYTHON "python3"
#endif

namespace halomesh {

const char* version() { return HALOMESH_VERSION; }
const char* git_commit() { return HALOMESH_GIT_COMMIT; }

const char* built_for_python() { return HALOMESH_PYTHON; }

const char* compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

}  // namespace halomesh
