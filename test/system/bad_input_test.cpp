// SPDX-License-Identifier: Apache-2.0
// Bad data and bad requests: each one ends all ranks within seconds, with one message that says
// what and where and gives a hint, before any training.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "test/system/scene.hpp"
#include "test/system/spoil.hpp"

namespace halomesh::test {
namespace {

constexpr int kFailed = 1, kUsage = 2;

/// One failure. `spoil` changes the scene and returns further text that the message must contain.
struct Row {
  std::string name;
  int exit_code;
  std::vector<std::string> named;
  std::function<std::vector<std::string>(Scene&)> spoil;
};

Row option(const std::string& name, int exit_code, const Arguments& changed,
           std::vector<std::string> named) {
  return {name, exit_code, std::move(named), [changed](Scene& scene) {
            for (const auto& [option, value] : changed) scene.options[option] = value;
            return std::vector<std::string>{};
          }};
}

/// Damages the file of one sample; the message must name that file.
Row sample(const std::string& name, const std::string& split, std::size_t index,
           std::vector<std::string> named, const std::function<void(const fs::path&)>& spoil) {
  return {name, kFailed, std::move(named), [=](Scene& scene) {
            const fs::path file = scene.files(split).at(index);
            spoil(file);
            return std::vector<std::string>{(fs::path(split) / file.filename()).string()};
          }};
}

// A failed run leaves neither a checkpoint nor a temporary file behind.
void check_rows(const std::vector<Row>& rows, bool copied) {
  int compared = 0;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Scene scene(copied);
    std::vector<std::string> named = row.spoil(scene);
    named.insert(named.end(), row.named.begin(), row.named.end());
    check_failure(scene.train(), row.exit_code, named);
    CHECK(checkpoints(scene.out).empty());
    CHECK(partial_files(scene.out).empty());
    if (copied) fs::remove_all(scene.data);
    ++compared;
  }
  CHECK(compared > 0);
  CHECK(compared == static_cast<int>(rows.size()));
}

}  // namespace

TEST_CASE("wrong requests end all ranks with one message") {
  const std::string nowhere = workshop().fresh("nowhere").string();
  const std::vector<Row> rows = {
      option("unknown option", kUsage, {{"momentun", "0.5"}}, {"--momentun", "--momentum"}),
      option("unreadable number", kUsage, {{"lr", "fast"}}, {"--lr", "fast"}),
      option("out of bounds", kUsage, {{"dropout", "1.5"}}, {"--dropout", "1.5"}),
      option("unreadable parts", kUsage, {{"parts", "2x"}}, {"--parts", "2x"}),
      option("missing configuration", kUsage, {{"config", "no.cfg"}}, {"no.cfg", "No such file"}),
      option("parts that do not fit the ranks", kUsage, {{"parts", "3x1x1"}}, {"3x1x1", "4"}),
      option("batch that does not divide", kUsage, {{"batch", "3"}}, {"3", "2 replicas"}),
      option("batch that does not divide into passes", kUsage, {{"accumulate", "3"}},
             {"--accumulate 3", "2 samples of a replica"}),
      option("unknown optimizer", kUsage, {{"optimizer", "adam"}}, {"adam", "adamw", "lamb"}),
      option("negative rate", kUsage, {{"lr", "-1"}}, {"--lr", "-1"}),
      option("a beta of 1", kUsage, {{"optimizer", "adamw"}, {"betas", "0.9,1"}},
             {"--betas: 0.9,1 is too large", "give less than 1"}),
      option("three betas", kUsage, {{"optimizer", "adamw"}, {"betas", "0.9,0.99,0.9"}},
             {"--betas", "3 numbers"}),
      option("epsilon of 0", kUsage, {{"optimizer", "lamb"}, {"epsilon", "0"}}, {"--epsilon"}),
      option("an epsilon that is 0 in fp32", kUsage, {{"optimizer", "adamw"}, {"epsilon", "1e-50"}},
             {"--epsilon: 1e-50", "fp32"}),
      option("a coefficient of 0", kUsage, {{"optimizer", "lars"}, {"lars-coefficient", "0"}},
             {"--lars-coefficient"}),
      option("bf16 gradients by MPI", kUsage, {{"gradient-payload", "bf16"}, {"reduction", "flat"}},
             {"--gradient-payload", "--reduction"}),
      option("skips without an epoch", kUsage, {{"skip-gradients", "2"}},
             {"--skip-gradients", "2@8"}),
      option("skips that do not grow", kUsage, {{"skip-gradients", "2@4,1@8"}},
             {"must grow", "1@8"}),
      option("all layers skipped", kUsage, {{"skip-gradients", "99@1"}}, {"99", "at least one"}),
      option("negative norm", kUsage, {{"clip-norm", "-1"}},
             {"--clip-norm -1 is not a norm", "auto"}),
      option("unknown schedule", kUsage, {{"schedule", "sine"}}, {"sine", "cosine"}),
      option("a decay without steps", kUsage, {{"schedule", "cosine"}}, {"--decay-steps"}),
      option("batch larger than the data", kUsage, {{"batch", "16"}}, {"8", "16", "train"}),
      option("network too deep", kUsage, {{"conv-layers", "7"}}, {"32x32x32x4", "--conv-layers"}),
      option("a trace that cannot be written", kFailed,
             {{"trace", nowhere + "/trace.json"}, {"steps", "1"}, {"checkpoint-every", "9"}},
             {nowhere + "/trace.json"}),
      option("steps of a trace that are none", kUsage,
             {{"trace", "trace.json"}, {"trace-steps", "5"}}, {"--trace-steps 5:", "5+3"}),
      option("ranks of a trace that do not exist", kUsage,
             {{"trace", "trace.json"}, {"trace-ranks", "0-4"}},
             {"--trace-ranks 0-4:", "rank 4", "4 ranks"}),
      option("missing data", kFailed, {{"data", nowhere}}, {nowhere + "/train", "halomesh synth"}),
      option("other extents", kFailed, {{"input", "16x16x16x4"}}, {"train/", "32x32x32x4"}),
      option("other targets", kFailed, {{"targets", "3"}}, {"train/", "--targets 4", "found 4"}),
      option("missing checkpoint", kFailed, {{"resume", "no.h5"}}, {"no.h5", "no such checkpoint"}),
      option("foreign file as checkpoint", kFailed,
             {{"init-from", (data_set(32, 8, 4) / "dataset.json").string()}}, {"dataset.json"}),
  };
  check_rows(rows, false);
}

TEST_CASE("unfit data end all ranks with one message") {
  const std::vector<Row> rows = {
      {"empty directory",
       kFailed,
       {"train holds no samples", "halomesh synth"},
       [](Scene& scene) {
         fs::remove_all(scene.data / "train");
         fs::create_directory(scene.data / "train");
         return std::vector<std::string>{scene.data.string()};
       }},
      {"no validation set",
       kFailed,
       {"validation is not a directory"},
       [](Scene& scene) {
         fs::remove_all(scene.data / "validation");
         return std::vector<std::string>{scene.data.string()};
       }},
      {"a smaller sample between others",
       kFailed,
       {"payload of", "--input 16x16x16x4"},
       [](Scene& scene) {
         const fs::path file = scene.files("train").at(5);
         fs::copy_file(fs::directory_iterator(data_set(16, 1, 1) / "train")->path(), file,
                       fs::copy_options::overwrite_existing);
         return std::vector<std::string>{file.filename().string()};
       }},
      sample("target that is no number", "train", 3, {"target 2 is nan", "finite"},
             [](const fs::path& file) {
               patch_record(file, -8, std::numeric_limits<float>::quiet_NaN());
             }),
      sample("infinite target", "validation", 1, {"target 3 is inf", "finite"},
             [](const fs::path& file) {
               patch_record(file, -4, std::numeric_limits<float>::infinity());
             }),
      // The record's own fields take 23 bytes here: voxel 1000 is at plane 0, row 7, (26, 0).
      sample("negative count", "train", 7, {"is -5", "count of 0 or more", "(0,7,26,0)"},
             [](const fs::path& file) { patch_record(file, 23 + 2 * 1000, std::int16_t{-5}); }),
  };
  check_rows(rows, true);
}

TEST_CASE("damaged files end all ranks with one message") {
  constexpr std::uintmax_t kVoxelByte = 5000;
  const std::vector<Row> rows = {
      sample("truncated record", "train", 5, {"truncated", "record 0"},
             [](const fs::path& file) { cut_file(file, 1000); }),
      sample("truncated checksum", "validation", 3, {"truncated", "record 0"},
             [](const fs::path& file) { cut_file(file, 2); }),
      sample("empty file", "train", 2, {"holds no record"},
             [](const fs::path& file) { write_file(file, ""); }),
      sample("text instead of records", "train", 1, {"not a TFRecord file"},
             [](const fs::path& file) { write_file(file, std::string(4096, 'x')); }),
      sample("flipped bit in a length", "train", 6, {"checksum of the length"},
             [](const fs::path& file) { flip_bit(file, 1); }),
      sample("flipped bit in the voxels", "train", 4, {"checksum of the payload", "record 0"},
             [](const fs::path& file) { flip_bit(file, kVoxelByte); }),
      sample("flipped bit in a validation sample", "validation", 2, {"checksum of the payload"},
             [](const fs::path& file) { flip_bit(file, kVoxelByte); }),
  };
  check_rows(rows, true);
}

TEST_CASE("a bad sample that only one rank reads ends the other ranks as well") {
  int compared = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    Scene scene(true);
    scene.options["parts"] = "1x1x1";
    const fs::path file = scene.files("validation").at(i);
    flip_bit(file, 9000);
    CAPTURE(i);
    check_failure(scene.train(), kFailed, {file.filename().string(), "checksum of the payload"});
    CHECK(partial_files(scene.out).empty());
    ++compared;
  }
  CHECK(compared == 4);
}

TEST_CASE("a rate that destroys the network is named with its step") {
  Scene scene;
  scene.options["lr"] = "1e30";
  check_failure(scene.train(), kFailed, {"loss of step 2", "nan", "1e+30", "--lr"});
  CHECK(checkpoints(scene.out).empty());
}

}  // namespace halomesh::test
