// SPDX-License-Identifier: Apache-2.0
// The content of data sets in files of every kind: that of copies, of changed data behind an old
// time, and files that two splits share.
#include "runtime/data/data_content.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "runtime/data/dataset_files.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// Changes a file by `change` and sets its time back.
void change_behind_its_time(const fs::path& file, const std::function<void(std::string&)>& change) {
  const auto time = fs::last_write_time(file);
  std::string bytes = contents(file);
  const std::size_t size = bytes.size();
  change(bytes);
  REQUIRE(bytes.size() == size);
  put_contents(file, bytes);
  fs::last_write_time(file, time);
}

/// The content, which is the same on every rank and for a copy of the data.
std::string content_in(const SharedDirectory& directory) {
  const SharedDirectory copy;
  const auto data = directory.open();
  copy.fill([&](const fs::path& train) {
    for (const auto& entry : fs::directory_iterator(data->directory()))
      fs::copy(entry.path(), train / entry.path().filename());
  });
  const auto copied = copy.open();
  const std::string content = content_of(test_world(), *data);
  CHECK(content_of(test_world(), *copied) == content);
  CHECK(copied->identity() != data->identity());
  for (const std::string& other : test_world().all_gather(content)) CHECK(other == content);
  return content;
}

}  // namespace

TEST_CASE("content: TFRecords are known by their names, sizes and checksums") {
  const SharedDirectory directory;
  std::vector<std::string> seen;
  const auto look = [&](const std::function<void(const fs::path&)>& change) {
    directory.fill(change);
    const std::string content = content_in(directory);
    for (const std::string& before : seen) CHECK(before != content);
    seen.push_back(content);
  };
  const auto write = [](const fs::path& path, const std::vector<int>& samples, Compression codec) {
    std::vector<std::string> payloads;
    for (const int sample : samples) payloads.push_back(sample_payload(sample));
    write_records(path, payloads, codec);
  };
  look([&](const fs::path& train) {
    write(train / "a.tfrecord", {0}, Compression::kNone);
    write(train / "b.tfrecord", {1, 2, 3}, Compression::kNone);
    write(train / "c.tfrecord", {4}, Compression::kGzip);
    write(train / "d.tfrecord", {5, 6}, Compression::kGzip);
  });
  const auto rewrite = [&](const char* name, const std::vector<int>& samples, Compression codec) {
    look([&](const fs::path& train) {
      const auto time = fs::last_write_time(train / name);
      write(train / name, samples, codec);
      fs::last_write_time(train / name, time);
    });
  };
  rewrite("a.tfrecord", {7}, Compression::kNone);
  rewrite("b.tfrecord", {1, 8, 3}, Compression::kNone);
  rewrite("c.tfrecord", {9}, Compression::kGzip);
  rewrite("d.tfrecord", {10, 6}, Compression::kGzip);
  look([](const fs::path& train) { fs::rename(train / "a.tfrecord", train / "A.tfrecord"); });
  look([&](const fs::path& train) { write(train / "e.tfrecord", {1}, Compression::kNone); });
  CHECK(seen.size() == 7);
}

TEST_CASE("content: files without checksums are known by blocks of them") {
  const TempDirectory directory;
  const fs::path file = directory / "x";
  std::string bytes(1 << 20, 'a');
  put_contents(file, bytes);
  const std::uint64_t hash = block_hash(file.string()), end = end_hash(file.string());
  const auto at = [&](std::size_t place) {
    change_behind_its_time(file, [&](std::string& all) { all = bytes, all[place] = 'b'; });
  };
  for (const std::size_t place : {std::size_t{0}, std::size_t{4095}, bytes.size() - 1}) {
    CAPTURE(place);
    at(place);
    CHECK(block_hash(file.string()) != hash);
    CHECK((end_hash(file.string()) != end) == (place == bytes.size() - 1));
  }
  // Every 16th of the file has a block, of which the rest is not read.
  at(5000);
  CHECK(block_hash(file.string()) == hash);
  change_behind_its_time(
      file, [&](std::string& all) { all.assign(bytes).replace(4096, 69632, 69632, 'b'); });
  CHECK(block_hash(file.string()) != hash);
  for (const char* const small : {"", "a", "b"}) {
    put_contents(directory / "small", small);
    CHECK(block_hash((directory / "small").string()) != block_hash(file.string()));
  }
}

TEST_CASE("content: files of two splits in common, by links and copies with other names") {
  const SharedDirectory first, second;
  const auto write = [](const fs::path& train, int from) {
    for (int f = from; f < from + 5; ++f)
      write_records(train / fmt::format("{}.tfrecord", f), {sample_payload(f)}, Compression::kNone);
  };
  first.fill([&](const fs::path& train) { write(train, 0); });
  second.fill([&](const fs::path& train) { write(train, 5); });
  CHECK(files_in_common(test_world(), *first.open(), *second.open()) == 0);
  CHECK(files_in_common(test_world(), *first.open(), *first.open()) == 5);
  const fs::path of_first = first.open()->directory();
  second.fill([&](const fs::path& train) {
    fs::create_symlink(of_first / "3.tfrecord", train / "y.tfrecord");
    fs::create_hard_link(of_first / "0.tfrecord", train / "z.tfrecord");
    fs::copy_file(of_first / "1.tfrecord", train / "x.tfrecord");
  });
  CHECK(files_in_common(test_world(), *first.open(), *second.open()) == 3);
}

}  // namespace halomesh
