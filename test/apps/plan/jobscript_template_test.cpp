// SPDX-License-Identifier: Apache-2.0
// Templates of job scripts: values, blocks, lines that repeat or vanish, words of a shell.
#include "src/apps/plan/jobscript_template.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "error.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {

TEST_CASE("templates are filled") {
  const TempDirectory directory;
  const auto fill = [&](const std::string& text) {
    std::ofstream(directory.path() / "t") << text;
    std::ofstream(directory.path() / "part") << "in @{one}\n";
    return fill_template(directory.path(), "t",
                         {{"one", {"1"}}, {"two", {"a", "b"}}, {"none", {}}, {"empty", {""}}});
  };
  CHECK(fill("x @{one} @{one}\ny @{two}\nz @{none}\nw @{empty}\n") == "x 1 1\ny a\ny b\nw\n");
  CHECK(fill("@if one\nyes\n@else\nno\n@end\n@if none\nyes\n@else\nno\n@end\n") == "yes\nno\n");
  // An inner @end closes the inner block only.
  CHECK(fill("@if none\na\n@if one\nb\n@else\nc\n@end\nd\n@else\ne\n@end\nf\n") == "e\nf\n");
  CHECK(fill("@if one\na\n@if none\nb\n@else\nc\n@end\nd\n@else\ne\n@end\nf\n") == "a\nc\nd\nf\n");
  CHECK(fill("@include part\n\n\n@{none}\n\nend\n") == "in 1\n\nend\n");
  CHECK(fill("\"${a[@]}\" @x @ {one}\n") == "\"${a[@]}\" @x @ {one}\n");
  CHECK_THROWS_AS(fill("@{unknown}\n"), Error);
  CHECK_THROWS_AS(fill("@if one\n"), Error);
  CHECK_THROWS_AS(fill("@if one\n@if two\n@end\n"), Error);
  CHECK_THROWS_AS(fill("@end\n"), Error);
  CHECK(shell_word("a/b-c.1") == "a/b-c.1");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("it's $x") == "'it'\\''s $x'");
}

}  // namespace halomesh
