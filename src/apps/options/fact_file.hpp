// SPDX-License-Identifier: Apache-2.0
// Files of facts about machines and sites: lines `NAME = VALUE # COMMENT`, and how a command names
// such a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace halomesh {

struct Fact {
  std::string name, value, comment;
  std::string where;  ///< "FILE:LINE", for messages
};

/// The facts of a file in its order. Throws UsageError if a line is not of this form, or if the
/// file cannot be read; the cure then asks for a `what`, such as "site profile".
std::vector<Fact> read_facts(const std::filesystem::path& file, const std::string& what);

/// The names of the files `directory`/NAME.ini, sorted.
std::vector<std::string> fact_file_names(const std::filesystem::path& directory);

/// True if a command means a path: it contains '/' or ends in .ini or .json.
bool is_fact_path(const std::string& name);

/// The file that `name`, the value of --`option`, stands for: a path as is_fact_path() says,
/// `directory`/NAME.ini, or a file of this name. Throws UsageError for an unknown name and names
/// the nearest.
std::filesystem::path find_fact_file(const std::string& option, const std::string& name,
                                     const std::filesystem::path& directory);

}  // namespace halomesh
