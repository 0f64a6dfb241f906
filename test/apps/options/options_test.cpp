// SPDX-License-Identifier: Apache-2.0
// Options: values from command line, file and default; every mistake with its hint.
#include "src/apps/options/options.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "test/harness/temp_files.hpp"

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
      .add_choice("beside", {"off", "mean", "all"}, "off", "what else")
      .implicit("mean")
      .add_switch("overwrite", "replace");
  return options;
}

void parse(Options& options, const std::vector<std::string>& arguments) {
  options.parse(arguments);
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

TEST_CASE("an option with an implicit value may be given without one") {
  CHECK(parsed({}).get<std::string>("beside") == "off");
  CHECK(parsed({"--beside"}).get<std::string>("beside") == "mean");
  CHECK(parsed({"--beside", "--count", "4"}).get<std::string>("beside") == "mean");
  CHECK(parsed({"--beside", "all"}).get<std::string>("beside") == "all");
  CHECK(parsed({"--beside=off"}).get<std::string>("beside") == "off");
  CHECK(refusal({"--beside=some"}) ==
        "--beside: 'some' is not one of off|mean|all | give one of off|mean|all");
}

TEST_CASE("defaults apply where nothing is given") {
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

TEST_CASE("mistakes on the command line name the option, the value and the hint") {
  struct Row {
    std::vector<std::string> arguments;
    const char* refusal;
  };
  const std::vector<Row> rows = {
      {{"--cuont", "3"}, "unknown option --cuont | did you mean --count? --help lists all options"},
      {{"--overwrit"},
       "unknown option --overwrit | did you mean --overwrite? --help lists all "
       "options"},
      // No abbreviations: a later option could make them ambiguous.
      {{"--coun", "3"}, "unknown option --coun | did you mean --count? --help lists all options"},
      {{"--count", "three"},
       "--count: 'three' is not a whole number such as 64 | give a whole "
       "number such as 64"},
      {{"--count", "3.5"},
       "--count: '3.5' is not a whole number such as 64 | give a whole number "
       "such as 64"},
      {{"--count", "0"}, "--count: 0 is too small | give at least 1"},
      {{"--count", "-1"}, "--count: -1 is too small | give at least 1"},
      {{"--count", "2147483648000"},
       "--count: 2147483648000 is too large | give at most 1000000000000"},
      {{"--count", "18446744073709551616"},
       "--count: 18446744073709551616 is too large | give at most 1000000000000"},
      {{"--count", ""},
       "--count: '' is not a whole number such as 64 | give a whole number such as 64"},
      {{"--seed", "-1"},
       "--seed: '-1' is not a whole number from 0 to 18446744073709551615 | give a whole number "
       "from 0 to 18446744073709551615"},
      {{"--rate", "1"}, "--rate: 1 is too large | give less than 1"},
      {{"--rate", "nan"},
       "--rate: 'nan' is not a number such as 0.001 | give a number such as "
       "0.001"},
      {{"--fc", "128;64"},
       "--fc: '128;64' is not a list of whole numbers such as 128,64 | give a "
       "list of whole numbers such as 128,64"},
      {{"--fc", "128,0"}, "--fc: 128,0 is too small | give at least 1"},
      {{"--input", "64x64x64"},
       "--input: '64x64x64' is not a shape DxHxWxC of at most 2^40 elements, such as "
       "128x128x128x4 | give a shape DxHxWxC of at most 2^40 elements, such as 128x128x128x4"},
      {{"--parts", "4x0x1"},
       "--parts: '4x0x1' is not a grid DxHxW of at most 16384 parts, such as 4x4x1 | give a grid "
       "DxHxW of at most 16384 parts, such as 4x4x1"},
      {{"--precision", "fp64"},
       "--precision: 'fp64' is not one of fp32|bf16 | give one of "
       "fp32|bf16"},
      {{"--augment", "yes"}, "--augment: 'yes' is not 'on' or 'off' | give 'on' or 'off'"},
      {{"--count", "1", "--count", "2"}, "--count is given twice | give it once"},
      {{"--count", "1", "2"},
       "unexpected argument '2' | a value follows its option, e.g. --seed 1; "
       "--help lists all options"},
      {{"x"},
       "unexpected argument 'x' | a value follows its option, e.g. --seed 1; --help lists all "
       "options"},
  };
  for (const Row& row : rows) CHECK(refusal(row.arguments) == row.refusal);
  CHECK(refusal({"--count"}).find("'--count' is missing") != std::string::npos);
  CHECK(rows.size() == 22);
}

TEST_CASE("numbers that fp32 does not hold are refused wherever they are given") {
  const auto parsed = [](const std::vector<std::string>& arguments) {
    Options options("sample", "A sample.");
    options.add<double>("pad", "X", 0, "outside")
        .add<std::vector<double>>("betas", "X,X", {0}, "b");
    options.parse(arguments);
  };
  for (const char* const good : {"0", "-3.4e38", "3.4e38", "1e-45"})
    CHECK(error_of([&] { parsed({"--pad", good}); }).empty());
  for (const char* const bad : {"1e39", "-1e39", "3.41e38", "1e-46", "-1e-300"})
    CHECK(contains(error_of([&] {
                     parsed({"--pad", bad});
                   }),
                   fmt::format("--pad: {} is outside fp32's range", bad)));
  CHECK(contains(error_of([&] {
                   parsed({"--betas", "0.5,1e-60"});
                 }),
                 "--betas: 0.5,1e-60 is outside fp32's range"));
  const TempDirectory directory;
  put_contents(directory / "a.cfg", "betas = 0\npad = 1e39\n");
  CHECK(contains(error_of([&] {
                   parsed({"--config", (directory / "a.cfg").string()});
                 }),
                 "1e39 is outside fp32's range"));
}

TEST_CASE("a required option may come from the command line or the file, but must be given") {
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

TEST_CASE("a file sets values, the command line overrides them") {
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
  CHECK(of("[first] # of all\n\ncount = 0\n") ==
        file + ":3: count: 0 is too small | give at least 1");
  CHECK(of("count\n").find(file + ":1: 'count' is not of the form NAME = VALUE") == 0);
  CHECK(of("count = 1\ncount = 2\n") == file + ":2: count is given twice | give it once");
  CHECK(of("config = other\n").find(file + ":1: a configuration file cannot name another") == 0);
  CHECK(refusal({"--config", file + ".missing"}).find("No such file") != std::string::npos);
  CHECK(refusal({"--config", directory.path().string()}).find("cannot be read") !=
        std::string::npos);
  // Values that the command line overrides must be valid as well.
  put_contents(file, "count = x\n");
  CHECK(refusal({"--config", file, "--count", "1"}).find(":1: count") != std::string::npos);
}

TEST_CASE("a file that is not a configuration is refused at once, saying what it is") {
  const TempDirectory directory;
  const std::string file = (directory / "a.cfg").string();
  const auto of = [&](const std::string& text) {
    put_contents(file, text);
    return refusal({"--config", file});
  };
  struct Row {
    std::string text, refusal;
  };
  using namespace std::string_literals;
  const std::string form = "write one option per line, e.g. seed = 1; comments start with #";
  const std::string cannot = "--config " + file + " cannot be read: ";
  const std::string give = " | give a text file of lines NAME = VALUE";
  const std::vector<Row> rows = {
      {"= 4\n", file + ":1: '= 4' is not of the form NAME = VALUE | " + form},
      {"count = 1\n  = \n", file + ":2: '=' is not of the form NAME = VALUE | " + form},
      {"count 4\n", file + ":1: 'count 4' is not of the form NAME = VALUE | " + form},
      {"\xEF\xBB\xBF"
       "cuont = 4\n",
       file + ":1: unknown option cuont | did you mean count? --help lists all options"},
      {"count = 4\0\n"s, cannot + "it holds NUL bytes, so it is not a text file" + give},
      {std::string(1 << 20, '#') + '\n', cannot + "it is larger than 1 MiB" + give},
      {"count = 1\nrate = 0.1\ncount = 2\n", file + ":3: count is given twice | give it once"},
      {"[a]\ncount = 1\n[b]\ncount = 2\n", file + ":4: count is given twice | give it once"},
      {"[a\n", file + ":1: '[a' is not of the form NAME = VALUE | " + form},
  };
  for (const Row& row : rows) CHECK(of(row.text) == row.refusal);
  CHECK(rows.size() == 9);

  put_contents(file,
               "\xEF\xBB\xBF"
               "count = 4\r\n\r\n# c\r\nrate = 0.25\r\n");
  const Options windows = parsed({"--config", file});
  CHECK(windows.get<std::int64_t>("count") == 4);
  CHECK(windows.get<double>("rate") == 0.25);

  const std::string pipe = (directory / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, "/dev/zero"s})
    CHECK(refusal({"--config", path}) ==
          "--config " + path + " cannot be read: it is not a regular file" + give);
  const std::string directory_path = directory.path().string();
  CHECK(refusal({"--config", directory_path}) ==
        "--config " + directory_path + " cannot be read: it is a directory" + give);
  const std::string long_name(300, 'n');
  CHECK(refusal({"--config", long_name}) ==
        "--config " + long_name + " cannot be read: File name too long" + give);
}

TEST_CASE("a switch does not take the argument after it for its value") {
  for (const char* word : {"--fast", "--fast=on"}) {
    Options options("x", "");
    options.add_switch("fast", "").accept_arguments();
    parse(options, {word, "run", "other"});
    CHECK(options.get<bool>("fast"));
    CHECK(options.arguments() == std::vector<std::string>{"run", "other"});
  }
  Options options("x", "");
  options.add_switch("fast", "").accept_arguments();
  parse(options, {"run", "--fast=off"});
  CHECK_FALSE(options.get<bool>("fast"));
}

TEST_CASE("arguments without an option, and options that belong to another command") {
  Options files = sample_options();
  files.accept_arguments().parse({"a", "--count", "2", "b"});
  CHECK(files.arguments() == std::vector<std::string>{"a", "b"});
  CHECK(files.get<std::int64_t>("count") == 2);

  Options own("outer", "");
  own.add<std::int64_t>("nodes", "N", 1, "nodes").add_switch("dry", "nothing");
  const std::vector<std::string> rest = own.parse_own(
      {"--count", "2", "--nodes", "3", "--config", "f", "--dry", "--", "--nodes", "4"},
      sample_options());
  CHECK(rest == std::vector<std::string>{"--count", "2", "--config", "f", "--nodes", "4"});
  CHECK(own.get<std::int64_t>("nodes") == 3);
  REQUIRE(own.given().size() == 2);
  CHECK(own.given()[0].value == "3");
  CHECK_FALSE(own.given()[1].value);
  // The nearest name of both sets is suggested.
  CHECK_THROWS_WITH_AS(own.parse_own({"--cuont", "2"}, sample_options()), "unknown option --cuont",
                       UsageError);
}

TEST_CASE("a file may contain options of other commands, the command line may not") {
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

TEST_CASE("a path that is typed as an empty word is refused") {
  CHECK(refusal({"--out", ""}) == "--out is given without a path | give DIR, or leave --out out");
  CHECK(refusal({"--out=", "--count", "4"}) ==
        "--out is given without a path | give DIR, or leave --out out");
  CHECK(refusal({"--config", ""}).starts_with("--config is given without a path | give FILE"));
  CHECK(parsed({"--fc", ""}).get<Integers>("fc").empty());
}

TEST_CASE("options without the choice they need are refused, or ignored where a file gives them") {
  const TempDirectory directory;
  const std::string file = (directory / "a.cfg").string();
  const auto declared = [] {
    Options options("x", "");
    options.add_choice("kind", {"sgd", "adam"}, "sgd", "what")
        .add<double>("momentum", "M", 0.9, "of sgd")
        .needs("kind", {"sgd"})
        .add<std::string>("stage", "DIR", "", "where to")
        .add_switch("keep", "of the stage")
        .needs("stage")
        .add<std::int64_t>("every", "N", 1, "how often")
        .add_switch("first", "also at first")
        .needs("every")
        .add<std::int64_t>("epochs", "N", 0, "how long")
        .add<std::int64_t>("steps", "N", 0, "how long")
        .instead_of("epochs")
        .add<double>("fill", "VALUE", 0, "of sgd")
        .zero_is_value()
        .needs("kind", {"sgd"});
    return options;
  };
  struct Row {
    std::string text;  // of the file
    std::vector<std::string> arguments;
    std::string expected;  // what is refused with its hint, or else the notes
  };
  const std::vector<Row> rows = {
      {"", {"--momentum", "0.5"}, ""},
      {"",
       {"--kind", "adam", "--momentum", "0.5"},
       "--momentum has no meaning with --kind adam | give --kind sgd, or leave --momentum out"},
      {"kind = adam\n",
       {"--momentum", "0.5"},
       "--momentum has no meaning with --kind adam | give --kind sgd, or leave --momentum out"},
      {"momentum = 0.5\nkeep = on\n",
       {"--kind", "adam"},
       file + ": momentum is ignored with --kind adam\n" + file +
           ": keep is ignored without --stage\n"},
      {"",
       {"--keep"},
       "--keep has no meaning without --stage | give --stage as well, or leave --keep out"},
      {"", {"--keep", "--stage", "d"}, ""},
      {"", {"--first"}, ""},
      {"",
       {"--first", "--every", "0"},
       "--first has no meaning with --every 0 | give another --every, or leave --first out"},
      {"first = on\n", {"--every", "0"}, file + ": first is ignored with --every 0\n"},
      {"",
       {"--epochs", "2", "--steps", "3"},
       "--steps and --epochs exclude each other | give one of them"},
      {"steps = 3\nepochs = 2\n", {}, "--steps and --epochs exclude each other | give one of them"},
      {"epochs = 2\n", {"--steps", "3"}, file + ": epochs is ignored with --steps\n"},
      {"steps = 3\n", {"--epochs", "2"}, file + ": steps is ignored with --epochs\n"},
      {"steps = 3\n", {"--epochs", "0"}, ""},
      {"", {"--kind", "adam", "--momentum", "0"}, ""},
      {"",
       {"--kind", "adam", "--fill", "0"},
       "--fill has no meaning with --kind adam | give --kind sgd, or leave --fill out"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CAPTURE(row.expected);
    put_contents(file, row.text);
    Options options = declared();
    std::vector<std::string> arguments = row.arguments;
    arguments.insert(arguments.end(), {"--config", file});
    std::string result;
    try {
      options.parse(arguments);
      for (const std::string& note : options.notes()) result += note + '\n';
    } catch (const UsageError& error) {
      result = std::string(error.what()) + " | " + error.hint();
    }
    CHECK(result == row.expected);
  }
  CHECK(rows.size() == 16);

  Options off = declared();
  off.parse({"--kind", "adam", "--momentum", "0"});
  CHECK_FALSE(off.is_given("momentum"));

  put_contents(file, "momentum = 0.5\n");
  Options options = declared();
  options.parse({"--config", file, "--kind", "adam"});
  CHECK(options.get<double>("momentum") == 0.9);
  CHECK_FALSE(options.is_given("momentum"));
  for (const auto& [name, value] : options.resolved()) CHECK(name != "momentum");
  options.parse({"--momentum", "0.5", "--kind", "adam"}, {"momentum"});
  CHECK(options.get<double>("momentum") == 0.9);
}

TEST_CASE("values go to the fields that options name") {
  struct Colour {
    std::string name = "red";
    double share = 0.25;
    bool bright = false;
    int code = 0;
  };
  struct Brush {
    std::int64_t width = 3;
  };
  Options options("x", "");
  options.add("colour", "NAME", &Colour::name, "what")
      .add("share", "X", &Colour::share, "how much")
      .at_most(1)
      .add_switch("bright", "lighter")
      .into(&Colour::bright)
      .add<std::string>("code", "N", "0x10", "in hexadecimal")
      .into(&Colour::code, [](const std::string& text) { return std::stoi(text, nullptr, 16); })
      .add("width", "N", &Brush::width, "of a brush");
  options.parse({"--share", "0.5", "--bright"});
  const auto colour = options.read<Colour>();
  CHECK(colour.name == "red");
  CHECK(colour.share == 0.5);
  CHECK(colour.bright);
  CHECK(colour.code == 16);
  CHECK(options.read<Brush>().width == 3);
  CHECK(options.get<double>("share") == 0.5);
  CHECK(options.help().find("how much (default 0.25)") != std::string::npos);
  CHECK_THROWS_AS(options.parse({"--share", "2"}), UsageError);
  options.parse({});
  const Options copy = options;
  Options other("y", "");
  other = copy;
  other.parse({"--width", "5"});
  CHECK(other.read(Brush{7}).width == 5);
  CHECK(options.read(Brush{7}).width == 3);
}

TEST_CASE("what is recorded and what decides a result follow from roles") {
  using enum SettingRole;
  using Recorded = Options::Recorded;
  Options options("x", "");
  options.group("Settings")
      .as(kNetwork)
      .add<std::int64_t>("batch", "B", 1, "samples")
      .as(kTraining)
      .add_choice("kind", {"sgd", "adam"}, "sgd", "what")
      .add<double>("momentum", "M", 0.9, "of sgd")
      .rounded()
      .needs("kind", {"sgd"})
      .add<double>("decay", "D", 0, "younger")
      .recorded(Recorded::kUnlessDefault)
      .add<double>("pad", "P", 0, "has no neutral value")
      .recorded(Recorded::kIfGiven)
      .as(kComputing)
      .add<std::int64_t>("parts", "N", 1, "how cut")
      .as(kFree)
      .add<std::string>("out", "DIR", "run", "where to");
  options.group("Others").add<std::int64_t>("threads", "N", 1, "no setting");
  using Map = std::map<std::string, std::string>;
  options.parse({"--batch", "04"});
  CHECK(options.recorded_settings() == Map{{"batch", "4"}, {"kind", "sgd"}, {"momentum", "0.9"}});
  CHECK(options.decisive_settings() == Map{{"batch", "4"},
                                           {"kind", "sgd"},
                                           {"momentum", "0.9"},
                                           {"decay", "0"},
                                           {"pad", "0"},
                                           {"parts", "1"},
                                           {"threads", "1"}});
  options.parse({"--momentum", "0.123456789", "--decay", "1e-1", "--pad", "0"});
  CHECK(options.recorded_settings() == Map{{"batch", "1"},
                                           {"kind", "sgd"},
                                           {"momentum", "0.12345679"},
                                           {"decay", "0.1"},
                                           {"pad", "0"}});
  options.parse({"--kind", "adam", "--decay", "0.0"});
  CHECK(options.recorded_settings() == Map{{"batch", "1"}, {"kind", "adam"}});
  CHECK_FALSE(options.decisive_settings().contains("momentum"));
  CHECK(options.roles().size() == 7);
}

TEST_CASE("a help page shows the groups of the choice that its arguments name") {
  Options options("x", "");
  options.add_choice("kind", {"a", "b"}, "a", "which").add<double>("rate", "X", 1, "of a").hidden();
  options.group("Kind a", "kind", "a").show("rate", "X", "1", "of a");
  options.group("Kind b", "kind", "b").show("rate", "X", "2", "of b");
  const auto help = [&](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "x");
    arguments.push_back("--help");
    options.parse(static_cast<int>(arguments.size()), arguments.data());
    return options.help();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(help({}), "of a (default 1)"));
  CHECK(has(help({}), "of b (default 2)"));
  for (const auto& arguments : {std::vector<const char*>{"--kind", "b"}, {"--kind=b"}}) {
    CHECK_FALSE(has(help(arguments), "Kind a"));
    CHECK(has(help(arguments), "of b (default 2)"));
  }
}

TEST_CASE("resolved options read back unchanged") {
  const Options o = parsed({"--rate", "0.001", "--fc", "7", "--parts", "1x2x3", "--augment", "on"});
  std::vector<std::string> again;
  for (const auto& [name, value] : o.resolved())
    if (name != "out") again.push_back("--" + name + "=" + value);  // an empty path is refused
  CHECK(again.size() == 10);
  CHECK(parsed(again).resolved() == o.resolved());
}

TEST_CASE("the help page lists groups, placeholders and defaults") {
  Options options = sample_options();
  const std::vector<const char*> argv{"sample", "--nonsense", "--help"};
  options.parse(3, argv.data());
  CHECK(options.help_wanted());
  const std::string help = options.help();
  for (const char* expected :
       {"usage: halomesh sample [options]", "Numbers:\n", "--count N", "(default 3)",
        "--precision fp32|bf16", "(default 128,64)", "--config FILE"}) {
    CAPTURE(expected);
    CHECK(help.find(expected) != std::string::npos);
  }
  CHECK(help.find("(default off)") != std::string::npos);  // of --augment, not of the switch
  CHECK(help.find("replace (default") == std::string::npos);
}

TEST_CASE("reading an undeclared option is a logic error") {
  const Options o = parsed({});
  CHECK_THROWS_AS(o.get<double>("nonsense"), std::logic_error);
  CHECK_THROWS_AS(o.get<Shape>("rate"), std::logic_error);
}

}  // namespace
}  // namespace halomesh
