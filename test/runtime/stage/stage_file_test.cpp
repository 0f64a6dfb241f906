// SPDX-License-Identifier: Apache-2.0
// A stage's files: slots and their checksums, a full disk, safe directories, and what is kept.
#include "runtime/stage/stage_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "runtime/stage/kept_stage.hpp"
#include "runtime/stage/stage_directory.hpp"
#include "test/harness/full_disk.hpp"
#include "test/harness/stage_counts.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kSlots = 5, kBlock = 1001;
const std::vector<std::int64_t> kValues(kSlots, kBlock);

std::vector<std::int16_t> block_of(std::int64_t slot) {
  std::vector<std::int16_t> counts(kBlock);
  std::iota(counts.begin(), counts.end(), static_cast<std::int16_t>(200 * slot));
  return counts;
}

StageFile written(const StageDirectory& directory, StageCodec codec) {
  StageFile file(directory.nameless_file(), "test", codec, kValues, DataType::kInt16);
  for (const std::int64_t slot : {3, 0, 4, 1, 2}) write_block(file, slot, block_of(slot));
  file.finish();
  return file;
}

std::int64_t compare(StageFile& file) {
  std::vector<std::int16_t> room(kBlock);
  std::int64_t compared = 0;
  for (std::int64_t slot = 0; slot < kSlots; ++slot) {
    const auto counts = read_block(file, slot, room);
    const std::vector<std::int16_t> expected = block_of(slot);
    CHECK(std::equal(counts.begin(), counts.end(), expected.begin(), expected.end()));
    compared += std::ssize(counts);
  }
  return compared;
}

TEST_CASE("stage_file: blocks are read back unchanged, written in any order, and leave no file") {
  const TempDirectory temp;
  const StageDirectory directory(temp.path());
  for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate}) {
    StageFile file = written(directory, codec);
    CHECK(temp.entries() == 0);
    CHECK(compare(file) == kSlots * kBlock);
    if (codec == StageCodec::kNone) {
      CHECK(file.stored_bytes() == kSlots * StageFile::raw_bytes(kBlock, DataType::kInt16));
    } else {
      CHECK(file.stored_bytes() < kSlots * 2 * kBlock);
    }
    StageFile moved = std::move(file);
    CHECK(compare(moved) == kSlots * kBlock);
  }
  StageFile incomplete(directory.nameless_file(), "test", StageCodec::kNone, {kBlock, kBlock},
                       DataType::kInt16);
  write_block(incomplete, 1, block_of(1));
  CHECK_THROWS_AS(incomplete.finish(), Error);
}

TEST_CASE("stage_file: a flipped bit is found in every slot") {
  const TempDirectory temp;
  const StageDirectory directory(temp.path());
  for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate}) {
    StageFile file = written(directory, codec);
    std::vector<std::int16_t> room(kBlock);
    for (std::int64_t slot = 0; slot < kSlots; ++slot) {
      const StageFile::Entry& entry = file.index()[static_cast<std::size_t>(slot)];
      const std::int64_t at = entry.offset + entry.bytes / 2;
      char byte = 0;
      const int fd = file.files().front().file().get();
      REQUIRE(::pread(fd, &byte, 1, at) == 1);
      byte = static_cast<char>(byte ^ 4);
      REQUIRE(::pwrite(fd, &byte, 1, at) == 1);
      CHECK(contains(error_of([&] { read_block(file, slot, room); }),
                     fmt::format("slot {} of the stage", slot)));
    }
  }
}

TEST_CASE("stage_file: blocks written interleaved in pieces, and slots of another process") {
  const TempDirectory temp;
  const StageDirectory directory(temp.path());
  for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate}) {
    StageFile file(directory.nameless_file(), "test", codec, kValues, DataType::kInt16);
    const auto append = [&](std::int64_t slot, std::size_t begin, std::size_t end) {
      const std::vector<std::int16_t> counts = block_of(slot);
      file.append(slot, std::as_bytes(std::span(counts)).subspan(begin, end - begin));
    };
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 1000}, {1000, 1999}})
      for (const std::int64_t slot : {4, 2, 0, 1, 3})
        append(slot, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    for (std::int64_t slot = 0; slot < kSlots; ++slot) {
      CHECK(contains(error_of([&] { file.finish(); }), fmt::format("slot {} of the stage", slot)));
      append(slot, 1999, 2 * kBlock);
    }
    file.finish();
    CHECK(compare(file) == kSlots * kBlock);
  }
}

/// Slots 0 and 4 written to the stage's own file, 1 to 3 to one that is adopted.
StageFile with_adopted(const StageDirectory& directory) {
  StageFile mine(directory.nameless_file(), "test", StageCodec::kNone, kValues, DataType::kInt16);
  StageFile others(directory.nameless_file(), "test", StageCodec::kNone, {kBlock, kBlock, kBlock},
                   DataType::kInt16);
  std::vector<std::uint32_t> checksums;
  for (const std::int64_t slot : {4, 0}) write_block(mine, slot, block_of(slot));
  for (const std::int64_t slot : {1, 2, 3}) write_block(others, slot - 1, block_of(slot));
  for (const StageFile::Entry& entry : others.index()) checksums.push_back(entry.checksum);
  CHECK_THROWS_AS(mine.finish(), Error);
  mine.adopt(Descriptor(::dup(others.files().front().file().get())), 1, checksums);
  mine.finish();
  return mine;
}

TEST_CASE("stage_file: slots that another process has written to a file of its own") {
  const TempDirectory temp;
  StageFile file = with_adopted(StageDirectory(temp.path()));
  CHECK(compare(file) == kSlots * kBlock);
  CHECK(file.stored_bytes() == kSlots * StageFile::raw_bytes(kBlock, DataType::kInt16));
}

TEST_CASE("block_codec: any counts come back; damage is an error") {
  BlockCodec codec;
  std::int64_t compared = 0;
  for (const std::size_t size : {1U, 2U, 1000U, 200'000U}) {
    std::vector<std::int16_t> counts(size), back(size);
    std::uint32_t state = 1;
    for (std::int16_t& x : counts)
      x = static_cast<std::int16_t>((state = state * 1664525U + 1013904223U) >> 16U);
    const auto stream = codec.deflate(std::as_bytes(std::span(counts)), 2);
    const std::vector<std::byte> kept(stream.begin(), stream.end());
    codec.inflate(kept, std::as_writable_bytes(std::span(back)), 2);
    CHECK(back == counts);
    compared += std::ssize(back);
    CHECK_THROWS_AS(codec.inflate(std::span(kept).first(kept.size() - 1),
                                  std::as_writable_bytes(std::span(back)), 2),
                    Error);
    std::vector<std::int16_t> longer(size + 1);
    CHECK_THROWS_AS(codec.inflate(kept, std::as_writable_bytes(std::span(longer)), 2), Error);
  }
  CHECK(compared > 200'000);
}

TEST_CASE("stage_file: a disk that fills up is one error with a hint, and nothing is left") {
  const TempDirectory temp;
  const SmallFileSystem disk(temp.path(), 1 << 16);
  if (!disk.mounted()) return;
  {
    const StageDirectory directory(temp.path());
    CHECK(directory.space().free.bytes <= 1 << 16);
    StageFile file(directory.nameless_file(), "test", StageCodec::kNone, {1 << 15, 1 << 15},
                   DataType::kInt16);
    const std::vector<std::int16_t> counts(1 << 15);
    const std::string error = error_of([&] {
      write_block(file, 0, counts);
      write_block(file, 1, counts);
    });
    CHECK(contains(error, "No space left"));
    CHECK(contains(error, "--stage-codec deflate"));
  }
  CHECK(StageDirectory(temp.path()).space().free.bytes == 1 << 16);
}

TEST_CASE("stage_directory: created if missing; links, files and read-only places are refused") {
  const TempDirectory temp;
  {
    const StageDirectory made(temp / "new");
    CHECK((std::filesystem::status(temp / "new").permissions() & std::filesystem::perms::all) ==
          std::filesystem::perms::owner_all);
    made.remove_if_made();
    CHECK(!std::filesystem::exists(temp / "new"));
  }
  std::filesystem::create_directory(temp / "real");
  std::filesystem::create_symlink(temp / "real", temp / "link");
  CHECK(contains(error_of([&] { StageDirectory(temp / "link"); }), "symbolic link"));
  StageDirectory(temp / "real").remove_if_made();
  CHECK(std::filesystem::exists(temp / "real"));
  put_contents(temp / "file", "x");
  CHECK(contains(error_of([&] { StageDirectory(temp / "file"); }), "Not a directory"));
  CHECK(contains(error_of([&] { StageDirectory(temp / "none" / "deeper"); }), "No such file"));
  // Root may write anywhere, so this checks as a user who does not own the directory.
  std::filesystem::permissions(temp / "real", std::filesystem::perms::owner_read);
  std::filesystem::permissions(temp.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  constexpr uid_t kNobody = 65534;
  const uid_t self = ::geteuid();
  if (self == 0) REQUIRE(::seteuid(kNobody) == 0);
  const std::string refused = error_of([&] { StageDirectory(temp / "real"); });
  REQUIRE(::seteuid(self) == 0);
  CHECK(contains(refused, "Permission denied"));
}

TEST_CASE("kept_stage: found only with the same key, complete, by one process at a time") {
  const TempDirectory temp;
  const std::vector<std::string> names{"train"};
  const StageDirectory directory(temp.path());
  for (const bool adopted : {false, true}) {
    const StageCodec codec = adopted ? StageCodec::kNone : StageCodec::kDeflate;
    StageFile file = adopted ? with_adopted(directory) : written(directory, codec);
    {
      KeptStage stage(temp.path(), "this data", 0);
      CHECK(stage.lock().empty());
      CHECK(!stage.find(names));
      stage.add("train", file, {1.5F, -2.0F});
      CHECK(!stage.find(names));  // there is no manifest yet
      stage.complete();
      KeptStage other(temp.path(), "this data", 0);
      CHECK(contains(other.lock(), fmt::format("process {} on host ", ::getpid())));
    }
    KeptStage stage(temp.path(), "this data", 0);
    CHECK(stage.lock().empty());
    auto found = stage.find(names);
    REQUIRE(found);
    StageFile again({}, "test", codec, kValues, DataType::kInt16);
    again.reopen(std::move(found->front().files), found->front().index);
    CHECK(compare(again) == kSlots * kBlock);
    CHECK(found->front().targets == std::vector<float>{1.5F, -2.0F});
    CHECK(!stage.find({"train", "validation"}));
    CHECK(!KeptStage::exists(temp.path(), "that data"));
    const auto manifest = temp.path() / KeptStage::directory_name("this data") / "rank-0.json";
    std::string text = contents(manifest);
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
    put_contents(manifest, text);
    CHECK(!stage.find(names));
    stage.remove();
    CHECK(temp.entries() == 0);
    CHECK(compare(again) == kSlots * kBlock);  // files in use stay
  }
}

TEST_CASE("kept_stage: neither links nor truncated files are reused") {
  const TempDirectory temp;
  const StageDirectory directory(temp.path());
  const StageFile file = with_adopted(directory);
  KeptStage stage(temp.path(), "key", 0);
  stage.add("train", file, {});
  stage.complete();
  const auto blocks = temp.path() / KeptStage::directory_name("key") / "rank-0.train.1";
  CHECK(stage.find({"train"}));
  std::filesystem::resize_file(blocks, 2 * kBlock);
  CHECK(!stage.find({"train"}));
  std::filesystem::rename(blocks, temp / "elsewhere");
  std::filesystem::create_symlink(temp / "elsewhere", blocks);
  CHECK(!stage.find({"train"}));
}

}  // namespace
}  // namespace halomesh
