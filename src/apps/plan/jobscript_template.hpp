// SPDX-License-Identifier: Apache-2.0
// Fills the templates of job scripts with values. Must not depend on schedulers or sites.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace halomesh {

/// The values of each name that templates may use; a name without values removes its lines and
/// blocks.
using TemplateValues = std::map<std::string, std::vector<std::string>>;

/// Fills a template. @{name} stands for a value: a line is repeated for every value of a name in
/// it, so it disappears if there is none. `@if name`, `@else`, `@end` (one per line, blocks may
/// nest) test whether a name has a value; `@include FILE` includes a file of `directory`. Runs of
/// empty lines become one. Throws Error with file and line for a name that is not in `values` and
/// for an unmatched @if, @else or @end.
std::string fill_template(const std::filesystem::path& directory, const std::string& file,
                          const TemplateValues& values);

/// Fills a template of a single line and returns the resulting lines.
std::vector<std::string> fill_line(const std::string& line, const TemplateValues& values);

/// Quotes `text` as one shell word: unchanged, or in single quotes.
std::string shell_word(const std::string& text);

}  // namespace halomesh
