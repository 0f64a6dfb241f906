// SPDX-License-Identifier: Apache-2.0
// The command plan from its arguments to what it prints.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "error.hpp"
#include "src/apps/launch/commands.hpp"
#include "src/apps/launch/parallel.hpp"
#include "test/harness/captured_output.hpp"

namespace halomesh {
namespace {

/// What the command prints.
std::string printed(std::vector<std::string> arguments) {
  const CapturedOutput captured;
  arguments.insert(arguments.begin(), "plan");
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  const int code = run_plan(static_cast<int>(argv.size()), argv.data());
  CHECK(code == kExitDone);
  return captured.out.str();
}

void check_holds(const std::string& text, const std::vector<std::string>& expected) {
  CHECK_FALSE(expected.empty());
  for (const std::string& e : expected) {
    CAPTURE(e);
    CHECK(text.find(e) != std::string::npos);
  }
}

TEST_CASE("the published mesh of 16 parts: halo bytes of an interior part, holders, parameters") {
  check_holds(printed({"--parts", "4x4x1", "--channel-cuts", "off"}),
              {"part 5 of 4x4x1", "657,408", "133,120", "524,288", "5,597,604 parameters"});
  check_holds(printed({"--parts", "4x4x1", "--cuts", "conv5:1x16"}),
              {"part 5 of 4x4x1", "1,107,968", "133,120", "974,848", "5,597,604 parameters"});
  check_holds(printed({"--parts", "4x4x1"}),
              {"part 5 of 4x4x1", "1,271,808", "133,120", "1,138,688", "5,597,604 parameters"});
  check_holds(printed({"--parts", "4x4x1", "--kernel", "3"}), {"8,907,556 parameters"});
}

TEST_CASE("a chosen part, and a part that does not exist") {
  check_holds(printed({"--parts", "4x4x1", "--part", "15"}), {"part 15 of 4x4x1, at (3, 3, 0)"});
  CHECK_THROWS_AS(printed({"--parts", "4x4x1", "--part", "16"}), UsageError);
  check_holds(printed({"--help"}), {"--parts DxHxW", "--kernel K"});
}

TEST_CASE("a plan of padded samples is that of the padded input") {
  const std::vector<std::string> unet{"--model", "unet3d", "--levels", "3", "--filters", "4"};
  const auto of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), unet.begin(), unet.end());
    return printed(more);
  };
  CHECK(of({"--input", "18x17x21x1", "--pad", "-2.2"}) ==
        "samples of 18x17x21x1 are padded to 20x20x24x1\n\n" + of({"--input", "20x20x24x1"}));
}

TEST_CASE("a plan says what --recompute auto chooses from") {
  const std::vector<std::string> unet{"--model", "unet3d",  "--input", "32x32x32x1", "--levels",
                                      "3",       "--parts", "2x1x1",   "--recompute"};
  const auto with = [&](const char* choice) {
    std::vector<std::string> arguments = unet;
    arguments.emplace_back(choice);
    return printed(arguments);
  };
  const auto peak = [](const std::string& text) {
    const std::string last = text.substr(text.find("peak  ") + 6);
    const std::size_t digits = last.find_first_not_of(' ');
    return last.substr(digits, last.find_first_of(" \n", digits) - digits);
  };
  const std::string off = with("off"), on = with("on"), chosen = with("auto");
  const std::string memory = off.substr(0, off.find("\n\n") + 1);
  CHECK(memory.starts_with("  memory of a process"));  // it is asked first
  CHECK(memory.find("\nthe largest share: ") != std::string::npos);
  CHECK(chosen.starts_with(memory));
  CHECK(off.find("\npeak memory of a process: " + peak(off) + " MB; the largest share: ") >
        memory.size());
  CHECK(off.substr(off.rfind("\n\n")).starts_with("\n\npeak memory of a process: "));
  CHECK(peak(on) != peak(off));
  check_holds(chosen.substr(memory.size()),
              {"--recompute auto", " the peak is " + peak(on) + " MB"});
}

}  // namespace
}  // namespace halomesh
