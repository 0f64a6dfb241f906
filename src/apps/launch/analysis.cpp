// SPDX-License-Identifier: Apache-2.0
// Starts the Python package: see analysis.hpp.
#include "src/apps/launch/analysis.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "error.hpp"
#include "src/apps/launch/version.hpp"

namespace halomesh {
namespace {

std::string python() {
  const char* const named = std::getenv("HALOMESH_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  return named != nullptr && *named != '\0' ? named : built_for_python();
}

/// The directory of the package, in the program's source tree or installation.
std::string package() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  for (std::filesystem::path at = program.parent_path(); at.has_relative_path();
       at = at.parent_path())
    for (const char* below : {"python/halomesh", "share/halomesh/python/halomesh"})
      if (std::error_code none; std::filesystem::exists(at / below / "__main__.py", none))
        return at / below;
  throw Error(fmt::format("the Python package was not found beside {}", program.c_str()),
              "run make install");
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void refuse_python(int error) {
  throw Error(fmt::format("cannot start {}: {}", python(), std::generic_category().message(error)),
              "name a Python of version 3.9 or newer: HALOMESH_PYTHON=/path/to/python3");
}

}  // namespace

int run_analysis(int argc, char** argv) {
  std::vector<std::string> words = {python(), package()};
  words.insert(words.end(), argv, argv + argc);
  ::execvp(words[0].c_str(), pointers_to(words).data());
  refuse_python(errno);
}

bool analysis_succeeds(std::vector<std::string> words) {
  words.insert(words.begin(), {python(), package()});
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words[0].c_str(), nullptr, nullptr,
                                   pointers_to(words).data(), environ);
  if (error != 0) refuse_python(error);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace halomesh
