// SPDX-License-Identifier: Apache-2.0
// Calls the command `jobscript` in this process and reads what it prints.
// Uses the profiles of the source tree.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "error.hpp"
#include "src/apps/launch/commands.hpp"
#include "test/harness/captured_output.hpp"

namespace halomesh {

using Words = std::vector<std::string>;

inline std::string source(const std::string& path) {
  const char* root = std::getenv("HALOMESH_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  return (std::filesystem::path(root != nullptr ? root : ".") / path).string();
}

/// What the command prints. Throws what it throws.
inline std::string printed(Words arguments) {
  arguments.insert(arguments.begin(), "jobscript");
  std::vector<char*> argv;
  for (std::string& word : arguments) argv.push_back(word.data());
  int code = -1;
  std::string text;
  {
    const CapturedOutput captured;
    code = run_jobscript(static_cast<int>(argv.size()), argv.data());
    text = captured.out.str();
  }
  CHECK(code == 0);
  return text;
}

inline Words request(const std::string& site, const Words& more) {
  Words words = {"--profiles", source("jobscripts"), "--site",    site,
                 "--data",     "/scratch/data",      "--out",     "/scratch/it's a run",
                 "--time",     "01:00:00",           "--program", "/opt/halomesh"};
  // A batch that most numbers of replicas divide.
  if (std::find(more.begin(), more.end(), "--scaling") == more.end())
    words.insert(words.end(), {"--batch", "2838528000"});
  // Later words replace earlier ones, because an option may be given only once.
  for (std::size_t i = 0; i < more.size(); ++i)
    for (std::size_t w = 0; more[i].starts_with("--") && w < words.size(); ++w)
      if (words[w] == more[i].substr(0, more[i].find('=')))
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(w),
                    words.begin() + static_cast<std::ptrdiff_t>(w + 2));
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline std::string script(const std::string& site, const Words& more) {
  return printed(request(site, more));
}

inline bool has_line(const std::string& text, const std::string& line) {
  return ('\n' + text).find('\n' + line + '\n') != std::string::npos;
}

/// "WHAT | HINT" of the refusal.
inline std::string refusal(const std::string& site, const Words& more) {
  try {
    script(site, more);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing was thrown";
}

}  // namespace halomesh
