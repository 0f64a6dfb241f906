// SPDX-License-Identifier: Apache-2.0
// Data sets in files of every kind, whole and damaged, on as many ranks as the test run has.
#include "runtime/data/dataset.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "runtime/data/example.hpp"
#include "runtime/data/tfrecord_dataset.hpp"
#include "runtime/posix/read_counts.hpp"
#include "test/runtime/data/sample_files.hpp"

namespace halomesh {
namespace {

TEST_CASE("dataset: one record per file, many, plain, gzip, mixed; forwards and backwards") {
  // Records of each file, in the order of their names; odd files are gzip.
  const std::vector<std::vector<int>> layouts = {
      {1}, {1, 1, 1, 1, 1, 1, 1}, {5}, {1, 4}, {2, 1, 3, 1}};
  for (const std::vector<int>& layout : layouts) {
    const SharedDirectory directory;
    directory.fill([&](const std::filesystem::path& train) {
      std::int64_t sample = 0;
      for (std::size_t f = 0; f < layout.size(); ++f) {
        std::vector<std::string> payloads;
        for (int r = 0; r < layout[f]; ++r) payloads.push_back(sample_payload(sample++));
        write_records(train / fmt::format("box_{}.tfrecord", f), payloads,
                      f % 2 == 1 ? Compression::kGzip : Compression::kNone);
      }
      put_contents(train / ".box_0.tfrecord.partial", "half");
      put_contents(train / "README.txt", "what is not called .tfrecord is left alone");
      std::filesystem::create_directory(train / "old");
    });
    const auto opened = directory.open();
    const auto& dataset = dynamic_cast<const TfRecordDataset&>(*opened);
    std::int64_t samples = 0, most = 0;
    for (const int records : layout)
      samples += records, most = std::max<std::int64_t>(most, records);
    CHECK(dataset.size() == samples);
    CHECK(dataset.files().size() == static_cast<std::int64_t>(layout.size()));
    CHECK(dataset.one_record_per_file() == (most == 1));
    CHECK(dataset.files().name(0) == "box_0.tfrecord");
    CHECK(dataset.advice() ==
          (layout.size() == 2
               ? "box_1.tfrecord is a gzip file of many records: reading it in random order is slow"
               : ""));
    CHECK(compare_all(dataset, false) == samples * (120 + 80 + 12 + 60));
    CHECK(compare_all(dataset, true) == samples * (120 + 80 + 12 + 60));
    CHECK_THROWS_AS(dataset.place(samples), Error);
    CHECK_THROWS_AS(dataset.place(-1), Error);
  }
}

TEST_CASE("dataset: problems with a directory give the same error on every rank") {
  const SharedDirectory directory;
  CHECK(contains(directory.open_error(), "train is not a directory"));
  directory.fill([](const auto&) {});
  CHECK(
      contains(directory.open_error(), "holds no samples in files of a known name (and 0 others)"));
  directory.fill([](const auto& train) { put_contents(train / "box.raw", "raw"); });
  CHECK(
      contains(directory.open_error(), "holds no samples in files of a known name (and 1 others)"));
  directory.fill([](const auto& train) {
    for (int f = 0; f < 6; ++f)
      write_records(train / fmt::format("{}.tfrecord", f), {sample_payload(f)}, Compression::kNone);
    put_contents(train / "4.tfrecord", "");
    std::filesystem::create_symlink("nowhere", train / "5.tfrecord.gz");
  });
  CHECK(contains(directory.open_error(), "tfrecord"));
  directory.fill([](const auto& train) { std::filesystem::remove(train / "4.tfrecord"); });
  CHECK(
      contains(directory.open_error(), "5.tfrecord.gz is a link to nowhere, which does not exist"));
  directory.fill([](const auto& train) { std::filesystem::remove(train / "5.tfrecord.gz"); });
  CHECK(directory.open()->size() == 5);
}

TEST_CASE("dataset: a damaged file or one of another size is reported before the first step") {
  for (const Compression compression : {Compression::kNone, Compression::kGzip})
    for (const int records : {1, 3}) {
      const SharedDirectory directory;
      std::string whole;
      directory.fill([&](const auto& train) {
        write_records(train / "a.tfrecord",
                      std::vector<std::string>(static_cast<std::size_t>(records),
                                               sample_payload(1, Shape{2, 8, 8, 8})),
                      compression);
        whole = contents(train / "a.tfrecord");
      });
      CHECK(directory.open(Shape{2, 8, 8, 8})->size() == records);
      const std::string error = directory.open_error(Shape{2, 4, 4, 4});
      CHECK(contains(error, "a.tfrecord: record 0: voxels (feature x): expected 256 bytes"));
      CHECK(contains(error, "found 2048"));
      CHECK(contains(error, "try --input 8x8x8x2"));
      CHECK(contains(directory.open_error(Shape{2, 16, 16, 16}), "try --input 8x8x8x2"));
      directory.fill([&](const auto& train) {
        put_contents(train / "a.tfrecord", whole.substr(0, whole.size() / 2));
      });
      const std::string truncated = directory.open_error(Shape{2, 8, 8, 8});
      CHECK(contains(truncated, compression == Compression::kNone ? "truncated in the payload"
                                                                  : "damaged gzip stream"));
    }
}

TEST_CASE("dataset: a wrong length is reported with the extents that would match") {
  const SharedDirectory directory;
  directory.fill([](const auto& train) {
    write_records(train / "a.tfrecord", {sample_payload(1, Shape{4, 32, 32, 32}, 4)},
                  Compression::kGzip);
  });
  const std::string error = directory.open_error(Shape{4, 16, 16, 16});
  CHECK(contains(error, "a.tfrecord: record 0: payload of 2621"));
  CHECK(contains(error, "expected 32768 for 16x16x16x4"));
  CHECK(contains(error, "try --input 32x32x32x4"));
  CHECK(contains(directory.open_error(Shape{4, 64, 64, 64}), "try --input 32x32x32x4"));
}

TEST_CASE("dataset: links to nothing are named; indices beside files are left alone") {
  const SharedDirectory directory;
  directory.fill([](const std::filesystem::path& train) {
    write_records(train / "a.tfrecord", {sample_payload(0)}, Compression::kNone);
    put_contents(train / "a.tfrecord.idx", "0 300\n");
  });
  CHECK(directory.open()->size() == 1);
  CHECK(directory.open()->name(0) == "a");
  directory.fill([](const std::filesystem::path& train) {
    std::filesystem::create_symlink("../gone/b.tfrecord", train / "b.tfrecord");
  });
  CHECK(contains(directory.open_error(),
                 "train/b.tfrecord is a link to ../gone/b.tfrecord, which does not exist"));
}

TEST_CASE("dataset: a directory that is named like a file of samples is refused") {
  const SharedDirectory directory;
  directory.fill([&](const std::filesystem::path& train) {
    write_records(train / "box_0.tfrecord", {sample_payload(0)}, Compression::kNone);
    std::filesystem::create_directory(train / "box_1.tfrecord");
  });
  CHECK(contains(error_of([&] { directory.open(); }),
                 "box_1.tfrecord is a directory, not a regular file"));
}

TEST_CASE("dataset: a bad sample is refused, naming file, record, value and hint") {
  const std::vector<std::int16_t> good_x(120);
  const std::vector<float> good_y(3);
  struct Case {
    std::string payload, message;
  };
  auto with_negative = good_x;
  with_negative[(1 * 4 + 2) * 5 * 2 + 3 * 2 + 1] = -7;
  auto with_nan = good_y;
  with_nan[2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases = {
      {encode_example(std::vector<std::int16_t>(122), good_y),
       "expected 240 bytes for 3x4x5x2, found 244"},
      {encode_example(good_x, std::vector<float>(2)), "targets (feature y): expected 3, found 2"},
      {encode_example(good_x, with_nan), "target 2 is nan"},
      {encode_example(with_negative, good_y), "voxel (d,h,w,c) = (1,2,3,1) is -7"},
      {"x" + sample_payload(0), "not a tf.train.Example"}};
  for (const Case& bad : cases) {
    const SharedDirectory directory;
    directory.fill([&](const auto& train) {
      write_records(train / "a.tfrecord", {sample_payload(0), bad.payload}, Compression::kNone);
    });
    const auto dataset = directory.open();
    const auto reader = dataset->reader();
    const Tensor block(Box::whole(kShape), 1);
    std::vector<float> y(3);
    reader->read(0, block.any_view(), scalars(y));
    const std::string error = error_of([&] { reader->read(1, block.any_view(), scalars(y)); });
    CHECK(contains(error, "train/a.tfrecord: record 1: "));
    CHECK(contains(error, bad.message));
    CHECK(error_of([&] { streamed(*reader, 1, y); }) == error);
    reader->read(0, block.any_view(), scalars(y));  // a reader survives what it refuses
    CHECK(y[1] == 1.0f);
  }
}

TEST_CASE("dataset: records keep to the values that targets may have") {
  const SharedDirectory directory;
  directory.fill([](const auto& train) {
    const std::vector<std::int16_t> x(120);
    write_records(train / "a.tfrecord",
                  {encode_example(x, std::vector<float>{0, 2, 1}),
                   encode_example(x, std::vector<float>{0, 3, 1}),
                   encode_example(x, std::vector<float>{0, 0.5F, 1})},
                  Compression::kNone);
  });
  TargetSpec labels(3);
  labels.limits = {0, 2, true, "correct the label"};
  const auto dataset = directory.open(kShape, labels);
  const auto reader = dataset->reader();
  const Tensor block(Box::whole(kShape), 1);
  std::vector<float> y(3);
  reader->read(0, block.any_view(), scalars(y));
  CHECK(contains(error_of([&] { reader->read(1, block.any_view(), scalars(y)); }),
                 "record 1: target 1 is 3, expected a label of 0 to 2"));
  CHECK(contains(error_of([&] { reader->read(2, block.any_view(), scalars(y)); }),
                 "record 2: target 1 is 0.5, expected a label of 0 to 2"));
  TargetSpec one(1);
  one.limits = labels.limits;
  CHECK(contains(error_of([&] { directory.open(kShape, one); }),
                 "give one label for each sample, or with --loss bce set --targets 3"));
}

TEST_CASE("dataset: files that change after the index was made, and joined gzip files") {
  const SharedDirectory directory;
  const auto write = [](const std::filesystem::path& path, int records) {
    std::vector<std::string> payloads;
    for (int r = 0; r < records; ++r) payloads.push_back(sample_payload(r));
    write_records(path, payloads, Compression::kGzip);
  };
  directory.fill([&](const auto& train) {
    write(train / "a.tfrecord", 1);
    write(train / "b.tfrecord", 2);
  });
  const auto dataset = directory.open();
  test_world().barrier();
  directory.fill([&](const auto& train) { write(train / "b.tfrecord", 1); });
  const auto reader = dataset->reader();
  CHECK(contains(error_of([&] { reader->read(2, {}, {}); }), "b.tfrecord: record 1"));
  test_world().barrier();
  directory.fill([&](const auto& train) { std::filesystem::remove(train / "a.tfrecord"); });
  CHECK(contains(error_of([&] { reader->read(0, {}, {}); }), "cannot open"));
  test_world().barrier();
  directory.fill([&](const auto& train) {
    const std::string member = contents(train / "b.tfrecord");
    put_contents(train / "b.tfrecord", member + member);
  });
  CHECK(contains(directory.open_error(), "is several gzip files joined"));
}

TEST_CASE("dataset: its identity is the same on every rank, and another after any change") {
  const SharedDirectory directory;
  const auto write = [](const std::filesystem::path& path, int records) {
    write_records(path,
                  std::vector<std::string>(static_cast<std::size_t>(records), sample_payload(1)),
                  Compression::kNone);
  };
  std::vector<std::string> seen;
  const auto look = [&] {
    const std::string identity = directory.open()->identity();
    for (const std::string& other : test_world().all_gather(identity)) CHECK(other == identity);
    for (const std::string& before : seen) CHECK(before != identity);
    seen.push_back(identity);
    test_world().barrier();
  };
  for (int f = 0; f < 4; ++f) {
    directory.fill([&](const auto& train) { write(train / fmt::format("{}.tfrecord", f), 1); });
    look();
  }
  CHECK(directory.open()->identity() == seen.back());
  test_world().barrier();
  directory.fill([&](const auto& train) { write(train / "2.tfrecord", 2); });
  look();
  directory.fill([&](const auto& train) {
    namespace fs = std::filesystem;
    fs::last_write_time(train / "1.tfrecord",
                        fs::last_write_time(train / "1.tfrecord") + std::chrono::seconds(1));
  });
  look();
  directory.fill([&](const auto& train) {
    std::filesystem::rename(train / "3.tfrecord", train / "4.tfrecord");
  });
  look();
  CHECK(seen.size() == 7);
}

TEST_CASE("dataset: opening plain files, or gzip ones of one record, reads little of them") {
  const Shape shape{4, 32, 32, 32};  // 262 kB
  for (const int records : {1, 3})
    for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
      if (compression == Compression::kGzip && records > 1) continue;
      const SharedDirectory directory;
      directory.fill([&](const auto& train) {
        for (const char* name : {"a.tfrecord", "b.tfrecord"})
          write_records(
              train / name,
              std::vector<std::string>(static_cast<std::size_t>(records), sample_payload(1, shape)),
              name[0] == 'a' ? Compression::kNone : compression);
      });
      const std::int64_t before = read_counts().bytes;
      const auto dataset = directory.open(shape);
      CHECK(dataset->size() == 2 * records);
      CHECK(read_counts().bytes - before < 16000);
      // Having opened it, a reader reads sample 0 as any other.
      std::vector<float> y(kTargets);
      CHECK(std::ssize(streamed(*dataset->reader(), 0, y)) == shape.volume());
    }
}

TEST_CASE("dataset: damage around the voxels of the first sample is found by its checksum") {
  const SharedDirectory directory;
  directory.fill([&](const auto& train) {
    write_records(train / "a.tfrecord", {sample_payload(1)}, Compression::kNone);
    std::string bytes = contents(train / "a.tfrecord");
    bytes[14] = static_cast<char>(bytes[14] ^ 8);  // the tag of a field
    put_contents(train / "a.tfrecord", bytes);
  });
  CHECK(
      contains(directory.open_error(), "a.tfrecord: record 0 at byte 0: checksum of the payload"));
}

TEST_CASE("dataset: bytes read from files are counted") {
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const SharedDirectory directory;
    std::filesystem::path file;
    directory.fill([&](const auto& train) {
      write_records(train / "a.tfrecord", {sample_payload(1)}, compression);
    });
    const auto dataset = directory.open();
    const std::int64_t bytes =
        static_cast<std::int64_t>(std::filesystem::file_size(dataset->directory() / "a.tfrecord"));
    const auto reader = dataset->reader();
    const Tensor block(Box::whole(kShape), 1);
    std::vector<float> y(kTargets);
    const std::int64_t before = read_counts().bytes;
    reader->read(0, block.any_view(), scalars(y));
    CHECK(read_counts().bytes - before == bytes);
  }
}

}  // namespace
}  // namespace halomesh
