// SPDX-License-Identifier: Apache-2.0
// TFRecord files against literal bytes, and under every kind of damage.
#include "runtime/data/tfrecord.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "error.hpp"
#include "runtime/posix/crc32c.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::vector<std::string> read_records(const std::filesystem::path& path,
                                      std::int64_t limit = kNoLimit) {
  TfRecordReader reader(limit);
  reader.open(path.native());
  std::vector<std::string> payloads;
  for (std::string payload; reader.next(payload);) payloads.push_back(payload);
  return payloads;
}

std::string random_text(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random() & 0xFFu);
  return text;
}

/// Hand-made record framing, for lengths that no payload has.
std::string header_of(std::uint64_t length) {
  const std::uint32_t crc = masked_crc32c(std::as_bytes(std::span(&length, 1)));
  std::string header(12, '\0');
  std::memcpy(header.data(), &length, 8);
  std::memcpy(header.data() + 8, &crc, 4);
  return header;
}

TEST_CASE("tfrecord: the bytes of a plain file") {
  const TempDirectory directory;
  write_records(directory / "a", {"halo"}, Compression::kNone);
  // Length 4, its masked CRC, the payload, its masked CRC: computed with a bit-wise CRC-32C.
  const unsigned char expected[] = {0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x42, 0x45,
                                    0x52, 0x04, 0x68, 0x61, 0x6c, 0x6f, 0x07, 0x45, 0x37, 0xe8};
  CHECK(contents(directory / "a") ==
        std::string(reinterpret_cast<const char*>(expected), sizeof expected));
  CHECK(directory.entries() == 1);
}

TEST_CASE("tfrecord: what is written is read, one record or many, plain or gzip") {
  const TempDirectory directory;
  const std::vector<std::vector<std::string>> files = {
      {}, {""}, {"one"}, {"", "b", "", std::string(70000, 'x'), random_text(300000, 1)}};
  std::int64_t compared = 0;
  for (const Compression compression : {Compression::kNone, Compression::kGzip})
    for (const std::vector<std::string>& payloads : files) {
      // The name says the opposite of what the file is: only its bytes count.
      const std::filesystem::path path =
          directory / (compression == Compression::kGzip ? "a" : "a.gz");
      write_records(path, payloads, compression);
      CHECK(read_records(path) == payloads);
      TfRecordReader reader(kNoLimit);
      reader.open(path.native());
      CHECK(reader.is_gzip() == (compression == Compression::kGzip));
      CHECK(reader.holds_one_record() == (payloads.size() == 1));
      std::vector<std::int64_t> offsets{0};
      while (reader.skip()) offsets.push_back(reader.offset());
      CHECK(reader.record() == static_cast<std::int64_t>(payloads.size()));
      CHECK(reader.at_end());
      std::string payload;
      for (std::size_t i = payloads.size(); i-- > 0; ++compared) {
        reader.seek(offsets[i], static_cast<std::int64_t>(i));
        CHECK(reader.peek_length() == static_cast<std::int64_t>(payloads[i].size()));
        REQUIRE(reader.next(payload));
        CHECK(payload == payloads[i]);
        reader.seek(reader.offset(), reader.record());
        CHECK(reader.at_end() == (i + 1 == payloads.size()));
      }
    }
  CHECK(compared == 14);
}

TEST_CASE("tfrecord: a plain record whose length looks like gzip's magic number") {
  const TempDirectory directory;
  for (const std::size_t length : {0x8b1fu, 0x88b1fu}) {
    const std::string payload = random_text(length, 2);
    for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
      write_records(directory / "a", {payload}, compression);
      CHECK(read_records(directory / "a") == std::vector<std::string>{payload});
    }
  }
}

TEST_CASE("tfrecord: a file truncated anywhere is an error") {
  const TempDirectory directory;
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    write_records(directory / "whole", {random_text(50, 3), random_text(9, 4)}, compression);
    const std::string whole = contents(directory / "whole");
    REQUIRE(whole.size() > 80);
    for (std::size_t size = 1; size < whole.size(); ++size) {
      CAPTURE(size);
      put_contents(directory / "cut", whole.substr(0, size));
      if (compression == Compression::kNone && size == 66) continue;  // a whole first record
      const std::string error = error_of([&] { read_records(directory / "cut"); });
      CHECK(contains(error, (directory / "cut").string()));
      CHECK(contains(error, "record "));
      TfRecordReader reader(kNoLimit);
      CHECK(error_of([&] {
              reader.open((directory / "cut").native());
              while (reader.skip()) continue;
            }) != "");
    }
  }
}

TEST_CASE("tfrecord: a flipped bit is an error, or may have no effect in gzip") {
  const TempDirectory directory;
  std::int64_t harmless = 0, refused = 0;
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const std::vector<std::string> payloads = {random_text(40, 5), "abc"};
    write_records(directory / "whole", payloads, compression);
    const std::string whole = contents(directory / "whole");
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string flipped = whole;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      put_contents(directory / "flipped", flipped);
      std::vector<std::string> found;
      const std::string error = error_of([&] { found = read_records(directory / "flipped"); });
      CAPTURE(bit);
      if (error.empty()) {
        CHECK(found == payloads);
        CHECK(compression == Compression::kGzip);
        ++harmless;
      } else {
        ++refused;
      }
    }
  }
  // RFC 1952, 2.3: the time (32 bits), XFL and OS (8 each) and the flag FTEXT carry no data; nor do
  // up to 7 bits that fill the last byte of the deflate stream.
  CHECK(harmless <= 56);
  CHECK(refused > 8 * 75);
}

TEST_CASE("tfrecord: random damage never crashes a reader") {
  const TempDirectory directory;
  std::mt19937 random(7);
  std::int64_t read = 0;
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    write_records(directory / "whole", {random_text(100, 6), "", random_text(30, 7)}, compression);
    const std::string whole = contents(directory / "whole");
    for (int round = 0; round < 1500; ++round) {
      std::string mutated = whole;
      for (auto edits = 1 + random() % 4; edits > 0; --edits) {
        const std::size_t at = random() % mutated.size();
        const auto kind = random() % 3;
        if (kind == 0) mutated[at] = static_cast<char>(random());
        if (kind == 1) mutated.erase(at, random() % 8);
        if (kind == 2) mutated.insert(at, random_text(random() % 20, static_cast<unsigned>(round)));
        if (mutated.empty()) mutated = "x";
      }
      put_contents(directory / "mutated", mutated);
      error_of(
          [&] { read += static_cast<std::int64_t>(read_records(directory / "mutated").size()); });
    }
  }
  CHECK(read >= 0);
}

TEST_CASE("tfrecord: lengths beyond the file or the limit are refused before allocating") {
  const TempDirectory directory;
  const std::string after(100, 'x');
  for (const std::uint64_t length :
       {std::uint64_t{101}, std::uint64_t{1} << 40, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    put_contents(directory / "long", header_of(length) + after);
    std::string payload;
    TfRecordReader reader(kNoLimit);
    reader.open((directory / "long").native());
    CHECK(error_of([&] { reader.next(payload); }) != "");
    CHECK(payload.capacity() < 100);
  }
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    write_records(directory / "ten", {"0123456789"}, compression);
    CHECK(read_records(directory / "ten", 10).size() == 1);
    const std::string error = error_of([&] { read_records(directory / "ten", 9); });
    CHECK(contains(error, "record 0 at byte 0: payload of 10 bytes, expected at most 9"));
  }
}

TEST_CASE("tfrecord: messages say what was expected and found") {
  const TempDirectory directory;
  write_records(directory / "a", {"halo", "mesh"}, Compression::kNone);
  const std::string whole = contents(directory / "a");
  const auto message = [&](const std::string& bytes) {
    put_contents(directory / "b", bytes);
    return error_of([&] { read_records(directory / "b"); });
  };
  CHECK(contains(message(whole.substr(0, 25)),
                 "record 1 at byte 20: truncated in the length: expected 12 bytes, found 5"));
  CHECK(contains(message(whole.substr(0, 30)), "truncated in the checksum of the length"));
  CHECK(contains(message(whole.substr(0, 34)),
                 "truncated in the payload: expected 4 bytes, found 2"));
  CHECK(contains(message(whole.substr(0, 38)), "truncated in the checksum of the payload"));
  CHECK(contains(message("This is a text file."), "not a TFRecord file"));
  CHECK(contains(message("\x78\x9c\x4b\xcb\xcf of zlib"), "compressed by zlib, which is not read"));
  CHECK(contains(message("\x1f\x8b\x08 no gzip either"), "damaged gzip stream"));
  std::string damaged = whole;
  damaged[33] = 'M';
  CHECK(contains(message(damaged), "record 1 at byte 20: checksum of the payload: expected 0x"));
  TfRecordReader reader(kNoLimit);
  CHECK(contains(error_of([&] { reader.open((directory / "none").native()); }),
                 "No such file or directory"));
  CHECK(contains(error_of([&] { reader.open((directory / ".").native()); }), "not a regular file"));
}

TEST_CASE("tfrecord: a half-written file never replaces a whole one") {
  const TempDirectory directory;
  write_records(directory / "a", {"old"}, Compression::kNone);
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    {
      TfRecordWriter writer(directory / "a", compression);
      writer.write("new");
      CHECK(directory.entries() == 2);
    }
    CHECK(directory.entries() == 1);
    // A limit on the size of files stands for the full disk: write() fails in the same way.
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{20000, before.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string error = error_of([&] {
      write_records(directory / "a", {random_text(9000, 8), random_text(90000, 9)}, compression);
    });
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    std::signal(SIGXFSZ, handler);
    CHECK(contains(error, "cannot write " + (directory / "a").string() + ": File too large"));
    CHECK(contains(error, "bytes"));
    CHECK(read_records(directory / "a") == std::vector<std::string>{"old"});
    CHECK(directory.entries() == 1);
  }
  TfRecordWriter writer(directory / "b", Compression::kNone);
  writer.commit();
  CHECK_THROWS_AS(writer.write("late"), Error);
  CHECK_THROWS_AS(writer.commit(), Error);
  CHECK(contains(error_of([&] { TfRecordWriter(directory / "no/b", Compression::kNone); }),
                 "No such file or directory"));
}

}  // namespace
}  // namespace halomesh
