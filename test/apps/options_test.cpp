// Options: values from command line, file and default; every mistake with its cure.
#include "src/apps/options.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "test/runtime/temp_files.hpp"

namespace halomesh {
namespace {

using Integers = std::vector<std::int64_t>;

Options sample_options() {
  Options options("sample [options]", "A sample.");
  options.group("Numbers")
      .add<std::int64_t>("count", "N", 3, "how many")
      .at_least(1)
      .add<double>("rate", "X", 0.5, "how fast")
      .at_least(0)
      .below(1)
      .add<std::uint64_t>("seed", "S", 0, "where from")
      .add<Integers>("fc", "N,N", {128, 64}, "layers")
      .at_least(1);
  options.group("Others")
      .add<std::string>("out", "DIR", "", "where to")
      .add<Shape>("input", "DxHxWxC", Shape{4, 128, 128, 128}, "what")
      .add<PartGrid>("parts", "DxHxW", PartGrid{}, "how cut")
      .add<bool>("augment", "on|off", false, "more")
      .add_choice("precision", {"fp32", "bf16"}, "fp32", "numbers")
      .add_switch("overwrite", "replace");
  return options;
}

void parse(Options& options, const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"sample"};
  for (const std::string& a : arguments) argv.push_back(a.c_str());
  options.parse(static_cast<int>(argv.size()), argv.data());
}

Options parsed(const std::vector<std::string>& arguments) {
  Options options = sample_options();
  parse(options, arguments);
  return options;
}

/// "WHAT | HINT" of the refusal.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parsed(arguments);
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "nothing was thrown";
}

TEST_CASE("defaults hold where nothing is given") {
  const Options o = parsed({});
  CHECK(o.get<std::int64_t>("count") == 3);
  CHECK(o.get<double>("rate") == 0.5);
  CHECK(o.get<Integers>("fc") == Integers{128, 64});
  CHECK(o.get<std::string>("out").empty());
  CHECK(o.get<Shape>("input") == Shape{4, 128, 128, 128});
  CHECK(o.get<PartGrid>("parts") == PartGrid{1, 1, 1});
  CHECK_FALSE(o.get<bool>("augment"));
  CHECK_FALSE(o.get<bool>("overwrite"));
  CHECK_FALSE(o.is_given("count"));
}

TEST_CASE("values of every type from the command line, in both spellings") {
  const Options o = parsed({"--count", "7", "--rate=1e-6", "--seed", "18446744073709551615", "--fc",
                            "1,2,3", "--out", "a b", "--input=64x32x16x2", "--parts", "4x2x1",
                            "--augment", "on", "--precision", "bf16", "--overwrite"});
  CHECK(o.get<std::int64_t>("count") == 7);
  CHECK(o.get<double>("rate") == 1e-6);
  CHECK(o.get<std::uint64_t>("seed") == 18446744073709551615u);
  CHECK(o.get<Integers>("fc") == Integers{1, 2, 3});
  CHECK(o.get<std::string>("out") == "a b");
  CHECK(o.get<Shape>("input") == Shape{2, 64, 32, 16});
  CHECK(o.get<PartGrid>("parts") == PartGrid{4, 2, 1});
  CHECK(o.get<bool>("augment"));
  CHECK(o.get<std::string>("precision") == "bf16");
  CHECK(o.get<bool>("overwrite"));
  CHECK(o.is_given("count"));
  CHECK_FALSE(parsed({"--overwrite=off"}).get<bool>("overwrite"));
  CHECK(parsed({"--overwrite", "--count", "4"}).get<std::int64_t>("count") == 4);
  CHECK(parsed({"--fc="}).get<Integers>("fc").empty());
}

TEST_CASE("mistakes on the command line name the option, the value and the cure") {
  struct Row {
    std::vector<std::string> arguments;
    const char* refusal;
  };
  const std::vector<Row> rows = {
      {{"--cuont", "3"}, "unknown option --cuont | did you mean --count? --help lists all options"},
      {{"--overwrit"},
       "unknown option --overwrit | did you mean --overwrite? --help lists all "
       "options"},
      // No guessing: an abbreviation could come to mean another option one day.
      {{"--coun", "3"}, "unknown option --coun | did you mean --count? --help lists all options"},
      {{"--count", "three"},
       "--count: 'three' is not a whole number such as 64 | give a whole "
       "number such as 64"},
      {{"--count", "3.5"},
       "--count: '3.5' is not a whole number such as 64 | give a whole number "
       "such as 64"},
      {{"--count", "0"}, "--count: 0 is too small | give at least 1"},
      {{"--count", "-1"}, "--count: -1 is too small | give at least 1"},
      {{"--rate", "1"}, "--rate: 1 is too large | stay below 1"},
      {{"--rate", "nan"},
       "--rate: 'nan' is not a number such as 0.001 | give a number such as "
       "0.001"},
      {{"--fc", "128;64"},
       "--fc: '128;64' is not a list of whole numbers such as 128,64 | give a "
       "list of whole numbers such as 128,64"},
      {{"--fc", "128,0"}, "--fc: 128,0 is too small | give at least 1"},
      {{"--input", "64x64x64"},
       "--input: '64x64x64' is not a shape DxHxWxC such as "
       "128x128x128x4 | give a shape DxHxWxC such as 128x128x128x4"},
      {{"--parts", "4x0x1"},
       "--parts: '4x0x1' is not a cut DxHxW such as 4x4x1 | give a cut DxHxW "
       "such as 4x4x1"},
      {{"--precision", "fp64"},
       "--precision: 'fp64' is not one of fp32|bf16 | give one of "
       "fp32|bf16"},
      {{"--augment", "yes"}, "--augment: 'yes' is not 'on' or 'off' | give 'on' or 'off'"},
      {{"--count", "1", "--count", "2"}, "--count is given twice | give it once"},
      {{"--count", "1", "2"},
       "surplus argument '2' | values follow their option, e.g. --seed 1; "
       "--help lists all options"},
      {{"x"},
       "surplus argument 'x' | values follow their option, e.g. --seed 1; --help lists all "
       "options"},
  };
  for (const Row& row : rows) CHECK(refusal(row.arguments) == row.refusal);
  CHECK(refusal({"--count"}).find("'--count' is missing") != std::string::npos);
  CHECK(rows.size() == 18);
}

TEST_CASE("a required option may come from either place, but must come") {
  Options options("x", "");
  options.add_required<std::string>("data", "DIR", "samples");
  CHECK_THROWS_WITH_AS(parse(options, {}), "--data is missing", UsageError);
  parse(options, {"--data", "d"});
  CHECK(options.get<std::string>("data") == "d");
  const TempDirectory directory;
  put_contents(directory / "a.cfg", "data = e\n");
  Options other("x", "");
  other.add_required<std::string>("data", "DIR", "samples");
  parse(other, {"--config", (directory / "a.cfg").string()});
  CHECK(other.get<std::string>("data") == "e");
}

TEST_CASE("a file gives values, the command line wins over it") {
  const TempDirectory directory;
  const std::string file = (directory / "a.cfg").string();
  put_contents(file,
               "# comment\n[numbers]\n; another\r\ncount = 9\n\n  rate=0.25   # of all\n"
               "fc = 5,6\noverwrite = on");
  const Options o = parsed({"--rate", "0.75", "--config", file});
  CHECK(o.get<std::int64_t>("count") == 9);
  CHECK(o.get<double>("rate") == 0.75);
  CHECK(o.get<Integers>("fc") == Integers{5, 6});
  CHECK(o.get<bool>("overwrite"));
  CHECK(o.is_given("count"));
}

TEST_CASE("mistakes in a file name the file and the line") {
  const TempDirectory directory;
  const std::string file = (directory / "a.cfg").string();
  const auto of = [&](const std::string& text) {
    put_contents(file, text);
    return refusal({"--config", file});
  };
  CHECK(of("count = 1\n\ncuont = 2\n") ==
        file + ":3: unknown option cuont | did you mean count? --help lists all options");
  CHECK(of("count = x\n") == file +
                                 ":1: count: 'x' is not a whole number such as 64 | give a "
                                 "whole number such as 64");
  CHECK(of("count = 0\n") == file + ":1: count: 0 is too small | give at least 1");
  CHECK(of("count\n").find(file + ":1: 'count' is not of the form NAME = VALUE") == 0);
  CHECK(of("count = 1\ncount = 2\n") ==
        file + ":2: count is given twice, first in line 1 | give it once");
  CHECK(of("config = other\n").find(file + ":1: a configuration file cannot name another") == 0);
  CHECK(refusal({"--config", file + ".missing"}).find("No such file") != std::string::npos);
  CHECK(refusal({"--config", directory.path().string()}).find("cannot be read") !=
        std::string::npos);
  // What the command line overrules must be right all the same.
  put_contents(file, "count = x\n");
  CHECK(refusal({"--config", file, "--count", "1"}).find(":1: count") != std::string::npos);
}

TEST_CASE("a file may hold options of other commands, the command line may not") {
  const TempDirectory directory;
  const std::string file = (directory / "a.cfg").string();
  Options options("small", "");
  options.add<std::int64_t>("part", "P", 0, "which");
  options.accept_in_config(sample_options());
  put_contents(file, "count = 4\npart = 2\n");
  parse(options, {"--config", file});
  CHECK(options.get<std::int64_t>("part") == 2);
  CHECK(options.resolved().size() == 1);
  CHECK(options.help().find("--count") == std::string::npos);
  CHECK_THROWS_WITH_AS(parse(options, {"--count", "4"}), "--count has no meaning here", UsageError);
  put_contents(file, "count = many\n");
  CHECK_THROWS_AS(parse(options, {"--config", file}), UsageError);
}

TEST_CASE("resolved options read back as they are") {
  const Options o = parsed({"--rate", "0.001", "--fc", "7", "--parts", "1x2x3", "--augment", "on"});
  std::vector<std::string> again;
  for (const auto& [name, value] : o.resolved()) again.push_back("--" + name + "=" + value);
  CHECK(again.size() == 10);
  CHECK(parsed(again).resolved() == o.resolved());
}

TEST_CASE("the help page lists groups, placeholders and defaults") {
  Options options = sample_options();
  parse(options, {"--nonsense", "--help"});
  CHECK(options.help_wanted());
  const std::string help = options.help();
  for (const char* expected : {"halomesh sample [options]", "Numbers\n", "--count N", "(default 3)",
                               "--precision fp32|bf16", "(default 128,64)", "--config FILE"}) {
    CAPTURE(expected);
    CHECK(help.find(expected) != std::string::npos);
  }
  CHECK(help.find("(default off)") != std::string::npos);  // of --augment, not of the switch
  CHECK(help.find("replace (default") == std::string::npos);
}

TEST_CASE("asking for what was not declared is our own mistake") {
  const Options o = parsed({});
  CHECK_THROWS_AS(o.get<double>("nonsense"), std::logic_error);
  CHECK_THROWS_AS(o.get<Shape>("rate"), std::logic_error);
}

}  // namespace
}  // namespace halomesh
