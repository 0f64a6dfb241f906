// SPDX-License-Identifier: Apache-2.0
// Networks from options and from checkpoints' settings; the configurations in the tree.
#include "src/apps/options/model_options.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/registry.hpp"
#include "runtime/train/resume_rules.hpp"
#include "src/apps/options/standardize_option.hpp"
#include "src/apps/options/train_options.hpp"

namespace halomesh {
namespace {

TEST_CASE("settings rebuild the network") {
  Options options("x", "");
  add_model_options(options);
  const char* argv[] = {"x",         "--kernel",  "3",    "--input", "64x64x64x4",
                        "--filters", "8",         "--fc", "16",      "--conv-layers",
                        "3",         "--targets", "2"};
  options.parse(13, argv);
  const auto settings = model_settings(options);
  CHECK(settings.size() == 8);  // however the network is cut and computed
  CHECK(settings.at("model") == "cosmoflow");
  CHECK(settings.at("input") == "64x64x64x4");
  const auto count = [](const Options& o) {
    return make_model(o).geometry({1, 1, 1}).parameter_count();
  };
  // 27 taps x 4 -> 8 -> 16 -> 32 filters, then 8^3 x 32 -> 16 -> 2.
  CHECK(count(options) ==
        (27 * 4 + 1) * 8 + (27 * 8 + 1) * 16 + (27 * 16 + 1) * 32 + (512 * 32 + 1) * 16 + 17 * 2);
  CHECK(count(options_of_settings(settings, "f.h5")) == count(options));
}

TEST_CASE("--standardize: off is not stored, numbers come back, mistakes are named") {
  const auto parsed = [](const std::vector<std::string>& arguments) {
    Options options("x", "");
    add_model_options(options);
    options.parse(arguments);
    return options;
  };
  CHECK(make_model(parsed({})).count_scales().empty());
  CHECK_FALSE(model_settings(parsed({})).contains("standardize"));
  CHECK(make_model(parsed({"--standardize"})).count_scales() == std::vector<ChannelScale>(4));
  const std::vector<ChannelScale> scales = {{1.0 / 3, 0.1}, {0, 1}, {-2.5, 1e-9}, {1e3, 2.0 / 7}};
  auto settings = model_settings(parsed({"--standardize", to_text(scales)}));
  CHECK(make_model(options_of_settings(settings, "f.h5")).count_scales() == scales);
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"yes", "'yes' is not MEAN:DEVIATION"},
      {"1:2,3", "'3' is not MEAN:DEVIATION"},
      {"1:2,3:4", "2 pairs for 4 channels"},
      {"0:1,0:1,0:1,0:0", "0:0 is out of range"},
      {"0:1,0:1,0:1,nan:1", "nan"}};
  for (const auto& mistake : mistakes) {
    const std::string& text = mistake.first;
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(make_model(parsed({"--standardize", text})),
                         doctest::Contains(mistake.second.c_str()), UsageError);
  }
}

TEST_CASE("options beyond the published network are stored where they are used") {
  const auto settings_of = [](const std::vector<std::string>& arguments) {
    Options options("x", "");
    add_model_options(options);
    options.parse(arguments);
    return model_settings(options);
  };
  CHECK_FALSE(settings_of({}).contains("average"));
  CHECK_FALSE(settings_of({}).contains("batch-norm"));
  const auto settings = settings_of({"--average", "on", "--batch-norm", "8"});
  CHECK(settings.at("batch-norm") == "8");
  CHECK(options_of_settings(settings, "f.h5").get<std::int64_t>("batch-norm") == 8);
  CHECK(settings.at("average") == "on");
  CHECK(options_of_settings(settings, "f.h5").get<bool>("average"));
}

TEST_CASE("each network has its own defaults, and refuses the options of others") {
  const auto parsed = [](const std::vector<std::string>& arguments) {
    Options options("x", "");
    add_model_options(options);
    options.parse(arguments);
    return options;
  };
  const Options unet = parsed({"--model", "unet3d"});
  CHECK(unet.get<Shape>("input") == Shape{1, 128, 128, 128});
  CHECK(make_model(unet).geometry({1, 1, 1}).parameter_count() == 31190243);
  const auto settings = model_settings(unet);
  CHECK(settings.at("levels") == "6");
  CHECK_FALSE(settings.contains("kernel"));
  CHECK_FALSE(settings.contains("cuts"));
  CHECK(model_settings(options_of_settings(settings, "f.h5")) == settings);
  for (const auto& [name, value] : unet.resolved()) CHECK(name != "kernel");
  for (const auto& [name, value] : parsed({}).resolved()) CHECK(name != "levels");
  CHECK_THROWS_WITH_AS(parsed({"--model", "unet3d", "--kernel", "3"}),
                       "--kernel has no meaning with --model unet3d", UsageError);
  CHECK_THROWS_WITH_AS(parsed({"--levels", "3"}), "--levels has no meaning with --model cosmoflow",
                       UsageError);
  CHECK(parsed({"--loss", "mae"}).get<std::string>("loss") == "mae");
  CHECK(unet.get<std::string>("loss") == "dice+ce");
  CHECK_FALSE(model_settings(parsed({})).contains("loss"));  // as versions without it
  CHECK_THROWS_WITH_AS(parsed({"--model", "unet3d", "--loss", "mse"}),
                       "--loss mse: the network unet3d has no such choice", UsageError);
  CHECK_THROWS_WITH_AS(parsed({"--loss", "dice"}),
                       "--loss dice: the network cosmoflow has no such choice", UsageError);
  CHECK(network_with("levels") == "unet3d");
  CHECK(parsed({"--batch-norm", "0"}).get<std::int64_t>("batch-norm") == 0);
  CHECK_THROWS_WITH_AS(parsed({"--model", "deepcam", "--batch-norm", "0"}),
                       "--batch-norm 0 is too small for deepcam", UsageError);
  CHECK(network_with("lr") == "cosmoflow");
}

TEST_CASE("settings that earlier versions have stored describe the same network") {
  const std::map<std::string, std::string> stored = {
      {"model", "cosmoflow"}, {"input", "128x128x128x4"}, {"kernel", "3"},  {"filters", "32"},
      {"conv-layers", "5"},   {"fc", "128,64"},           {"targets", "4"}, {"dropout", "0.5"}};
  const Options options = options_of_settings(stored, "f.h5");
  CHECK(make_model(options).geometry({1, 1, 1}).parameter_count() == 8907556);
  CHECK(model_settings(options) == stored);
}

TEST_CASE("settings of another program are refused, naming the file") {
  for (const char* name : {"attention", "config", "help", "", "kernel=2 --config"})
    CHECK_THROWS_WITH_AS(
        options_of_settings({{name, "8"}}, "f.h5"),
        (std::string(
             "f.h5 describes a network that this version does not support: unknown setting ") +
         name)
            .c_str(),
        Error);
  try {
    options_of_settings({{"kernel", "two"}}, "f.h5");
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("f.h5") == 0);
    CHECK(std::string(error.what()).find("--kernel: 'two'") != std::string::npos);
  }
}

TEST_CASE("every training option has a rule for resuming, and every rule an option") {
  Options all = all_run_options();
  const char* argv[] = {"x", "--data", "d", "--out", "o"};
  all.parse(5, argv);
  std::set<std::string> options{"training-samples"};
  for (const std::string& name : all.names()) options.insert(name);
  std::set<std::string> rules;
  for (const ResumeRule& rule : resume_rules(all)) CHECK(rules.emplace(rule.name).second);
  CHECK(rules == options);
  CHECK(rules.size() > 40);
}

TEST_CASE("every configuration in the tree holds options that training knows") {
  const char* root = std::getenv("HALOMESH_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  const std::filesystem::path models =
      std::filesystem::path(root != nullptr ? root : ".") / "models";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    if (entry.path().extension() != ".cfg") continue;
    const std::string file = entry.path().string();
    CAPTURE(file);
    Options options = all_run_options();
    const char* argv[] = {"x", "--config", file.c_str(), "--data", "d", "--out", "o"};
    options.parse(7, argv);
    CHECK(options.notes().empty());
    CHECK(make_model(options).layers().size() > 5);
    // The published ones are the only networks of counts with 128^3 voxels.
    if (options.get<Shape>("input") == Shape{4, 128, 128, 128})
      CHECK(make_model(options).geometry({1, 1, 1}).parameter_count() ==
            (options.get<std::int64_t>("kernel") == 2 ? 5597604 : 8907556));
    ++files;
  }
  CHECK(files >= 6);
}

TEST_CASE("a configuration never blocks a choice of the command line") {
  const char* root = std::getenv("HALOMESH_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  const std::string models =
      (std::filesystem::path(root != nullptr ? root : ".") / "models/").string();
  struct Row {
    std::string file;
    std::vector<std::string> typed;
    std::string notes;  // without the file's name
  };
  const std::vector<Row> rows = {
      {"unet3d-kits19.cfg", {"--patches", "off"}, "foreground is ignored with --patches off"},
      {"unet3d-kits19.cfg",
       {"--model", "cosmoflow", "--input", "64x64x64x4"},
       "levels, most-filters, down, classes, patches, pad, loss are ignored with --model "
       "cosmoflow, foreground is ignored without --patches"},
      {"unet3d-kits19.cfg",
       {"--optimizer", "adamw", "--lr", "0.001"},
       "momentum is ignored with --optimizer adamw"},
      {"unet3d-kits19.cfg",
       {"--warmup-steps", "9"},
       "warmup-epochs is ignored with --warmup-steps, warmup-initial-lr is ignored without "
       "--warmup-epochs"},
      {"benchmark.cfg",
       {"--schedule", "constant"},
       "linear-epochs, linear-end-factor are ignored with --schedule constant"},
      {"benchmark.cfg", {"--target-score", "0.1"}, "target-mae is ignored with --target-score"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    Options options = all_run_options();
    std::vector<std::string> arguments = {"--config", models + row.file, "--data",
                                          "d",        "--out",           "o"};
    arguments.insert(arguments.end(), row.typed.begin(), row.typed.end());
    options.parse(arguments);
    std::string notes;
    for (const std::string& note : options.notes())
      notes += (notes.empty() ? "" : ", ") + note.substr((models + row.file + ": ").size());
    CHECK(notes == row.notes);
    CHECK(make_model(options).layers().size() > 5);
  }
  CHECK(rows.size() == 6);
}

TEST_CASE("options that nothing would read are refused when typed") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"--milestones", "3"}, "--milestones has no meaning with --schedule constant"},
      {{"--betas", "0.9,0.99"}, "--betas has no meaning with --optimizer sgd"},
      {{"--keep-stage"}, "--keep-stage has no meaning without --stage-dir"},
      {{"--keep-stage", "--stage-dir", "s", "--instances", "2"},
       "--keep-stage has no meaning with --instances 2"},
      {{"--pad", "2"}, "--pad has no meaning with --model cosmoflow"},
      {{"--patches", "random"}, "--patches has no meaning with --model cosmoflow"},
      {{"--foreground", "0.5"}, "--foreground has no meaning without --patches"},
      {{"--trace-steps", "1+1"}, "--trace-steps has no meaning without --trace"},
      {{"--warmup-initial-lr", "0.1"},
       "--warmup-initial-lr has no meaning without --warmup-epochs"},
      {{"--evaluate-every", "0", "--evaluate-first"},
       "--evaluate-first has no meaning with --evaluate-every 0"},
      {{"--target-mae", "0.1", "--target-score", "0.2"},
       "--target-mae and --target-score exclude each other"},
      {{"--warmup-epochs", "1", "--warmup-steps", "2"},
       "--warmup-steps and --warmup-epochs exclude each other"},
      {{"--reproducible", "--shuffle", "local"},
       "--reproducible cannot be combined with --shuffle local: a local shuffle depends on the "
       "number of replicas"}};
  for (const auto& row : rows) {
    Options options = all_run_options();
    std::vector<std::string> arguments = {"--data", "d", "--out", "o"};
    arguments.insert(arguments.end(), row.first.begin(), row.first.end());
    CHECK_THROWS_WITH_AS(options.parse(arguments), row.second.c_str(), UsageError);
  }
  CHECK(rows.size() == 13);
}

TEST_CASE("a help page has one text and one default for each option of each network") {
  const auto help = [](std::vector<const char*> arguments) {
    Options options("x", "");
    add_model_options(options);
    arguments.insert(arguments.begin(), "x");
    arguments.push_back("--help");
    options.parse(static_cast<int>(arguments.size()), arguments.data());
    return options.help();
  };
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  for (const Network& network : networks()) {
    const std::string own = help({"--model", network.name.c_str()});
    CAPTURE(own);
    CHECK(count(own, "Network ") == 1);
    CHECK(count(own, "--input ") == 1);
    CHECK(count(own, network.own_input ? "default: those of the file" : to_text(network.input)) ==
          1);
    for (const NetworkOption& option : network.options)
      CHECK(count(own, "--" + option.name + " ") >= 1);
  }
  CHECK(count(help({}), "--input ") == static_cast<int>(networks().size()));
}

}  // namespace
}  // namespace halomesh
