// SPDX-License-Identifier: Apache-2.0
// HDF5 files: what is written is read back; every failure is an Error that says where and why.
#include "runtime/hdf5/hdf5_file.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <thread>

#include "test/harness/full_disk.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

template <class T>
std::vector<T> counted(std::size_t size, T first = T{}) {
  std::vector<T> values(size);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Writes a checksummed dataset "/a/x" of 4 x 1000 floats and closes.
void write_sample(const std::filesystem::path& path) {
  Hdf5File file = Hdf5File::create(path);
  file.create_dataset("/a/x", Hdf5Type::kFloat, {4, 1000}, {{1, 1000}, true});
  file.write_attribute("/a", "note", std::string("text"));
  for (std::int64_t row = 0; row < 4; ++row)
    file.write<float>("/a/x", {{row, 0}, {1, 1000}},
                      counted<float>(1000, static_cast<float>(row * 1000)));
  file.close();
}

std::vector<float> read_sample(const std::filesystem::path& path) {
  Hdf5File file = Hdf5File::open(path);
  std::vector<float> values(4000);
  file.read<float>("/a/x", Slab::whole({4, 1000}), values);
  return values;
}

}  // namespace

TEST_CASE("attributes of every type come back as written") {
  const TempDirectory directory;
  {
    Hdf5File file = Hdf5File::create(directory / "a.h5");
    file.create_group("/g/h");
    file.write_attribute("/", "integer", std::int64_t{-9000000000});
    file.write_attribute("/", "unsigned", ~std::uint64_t{0});
    file.write_attribute("/g", "float", 0.1f);
    file.write_attribute("/g/h", "double", 0.1);
    file.write_attribute("/g/h", "text", std::string("grüße 1"));
    file.write_attribute("/g/h", "empty", std::string());
    file.write_attribute("/g/h", "double", 0.2);  // replaces
    file.close();
  }
  const Hdf5File file = Hdf5File::open(directory / "a.h5");
  CHECK(file.read_attribute<std::int64_t>("/", "integer") == -9000000000);
  CHECK(file.read_attribute<std::uint64_t>("/", "unsigned") == ~std::uint64_t{0});
  CHECK(file.read_attribute<float>("/g", "float") == 0.1f);
  CHECK(file.read_attribute<double>("/g/h", "double") == 0.2);
  CHECK(file.read_attribute<std::string>("/g/h", "text") == "grüße 1");
  CHECK(file.read_attribute<std::string>("/g/h", "empty").empty());
  CHECK(file.attribute_names("/g/h") == std::vector<std::string>{"double", "empty", "text"});
  CHECK(file.has_attribute("/g", "float"));
  CHECK_FALSE(file.has_attribute("/g", "text"));
  CHECK(file.contains("/g/h"));
  CHECK_FALSE(file.contains("/g/h/i"));
  CHECK_FALSE(file.contains("/x/h"));
  CHECK(file.members("/") == std::vector<std::string>{"g"});
  CHECK(contains(error_of([&] { file.read_attribute<float>("/g/h", "double"); }),
                 "expected one float32, found 1 of float64"));
  CHECK(contains(error_of([&] { file.read_attribute<std::string>("/", "integer"); }), "int64"));
  CHECK(contains(error_of([&] { file.read_attribute<float>("/", "none"); }),
                 "a.h5: cannot read attribute none of /"));
}

TEST_CASE("blocks of a compressed, checksummed dataset are written and read") {
  const TempDirectory directory;
  const Extents extents{3, 4, 5, 2};
  const auto number = [](std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t c) {
    return static_cast<std::int16_t>(((n * 4 + d) * 5 + h) * 2 + c - 50);
  };
  {
    Hdf5File file = Hdf5File::create(directory / "x.h5");
    file.create_dataset("/x", Hdf5Type::kInt16, extents, {{1, 2, 5, 2}, true, true, 4});
    CHECK(file.holds("/x", Hdf5Type::kInt16));
    CHECK_FALSE(file.holds("/x", Hdf5Type::kFloat));
    CHECK(file.extents("/x") == extents);
    for (std::int64_t n = 0; n < 3; ++n)
      for (std::int64_t d = 0; d < 4; ++d) {
        std::vector<std::int16_t> plane;
        for (std::int64_t h = 0; h < 5; ++h)
          for (std::int64_t c = 0; c < 2; ++c) plane.push_back(number(n, d, h, c));
        file.write<std::int16_t>("/x", {{n, d, 0, 0}, {1, 1, 5, 2}}, plane);
      }
    file.close();
    file.close();  // nothing left to do
  }
  Hdf5File file = Hdf5File::open(directory / "x.h5");
  std::vector<std::int16_t> block(2 * 3 * 2 * 1);
  file.read<std::int16_t>("/x", {{1, 1, 2, 1}, {2, 3, 2, 1}}, block);
  std::size_t at = 0;
  for (std::int64_t n = 1; n < 3; ++n)
    for (std::int64_t d = 1; d < 4; ++d)
      for (std::int64_t h = 2; h < 4; ++h) CHECK(block.at(at++) == number(n, d, h, 1));
  CHECK(at == block.size());

  std::vector<float> floats(12);
  CHECK(contains(error_of([&] {
                   file.read<float>("/x", {{1, 1, 2, 1}, {2, 3, 2, 1}}, floats);
                 }),
                 "x.h5: /x holds int16, expected float32"));
  CHECK(contains(error_of([&] {
                   file.read<std::int16_t>("/x", {{2, 1, 2, 1}, {2, 3, 2, 1}}, block);
                 }),
                 "x.h5: cannot read /x"));
  CHECK(contains(error_of([&] {
                   file.read<std::int16_t>("/x", {{0}, {12}}, block);
                 }),
                 "does not fit"));
  CHECK(contains(error_of([&] {
                   file.read<std::int16_t>("/x", {{0, 0, 0, 0}, {1, 1, 1, 1}}, block);
                 }),
                 "the 12 values given"));
  CHECK(contains(error_of([&] { file.extents("/y"); }), "cannot open dataset /y"));
}

TEST_CASE("errors of opening and creating name the file and the reason") {
  const TempDirectory directory;
  put_contents(directory / "text.h5", "no HDF5 file, but long enough to look for a signature in");
  put_contents(directory / "empty.h5", "");
  CHECK(contains(error_of([&] { Hdf5File::open(directory / "none.h5"); }), "No such file"));
  CHECK(contains(error_of([&] { Hdf5File::open(directory.path()); }), "not a regular file"));
  CHECK(contains(error_of([&] { Hdf5File::open(directory / "text.h5"); }), "text.h5: cannot open"));
  CHECK(
      contains(error_of([&] { Hdf5File::open(directory / "empty.h5"); }), "empty.h5: cannot open"));
  CHECK(contains(error_of([&] { Hdf5File::create(directory / "no" / "x.h5"); }), "No such file"));
}

TEST_CASE("a full disk is reported before a file counts as written, and harms nothing else") {
  const TempDirectory directory;
  write_sample(directory / "whole.h5");
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(directory / "whole.h5"));
  const auto expected = counted<float>(4000);
  int refused = 0, written = 0;
  for (std::int64_t limit = 0; limit < size + 800; limit += 397) {
    CAPTURE(limit);
    std::string error;
    {
      const FileSizeLimit full(limit);
      error = error_of([&] { write_sample(directory / "x.h5"); });
    }
    CHECK(error.empty() == (limit >= size));
    if (error.empty()) {
      CHECK(read_sample(directory / "x.h5") == expected);
      ++written;
    } else {
      CHECK(contains(error,
                     fmt::format("cannot write {}: File too large", (directory / "x.h5").c_str())));
      ++refused;
    }
    std::filesystem::remove(directory / "x.h5");
  }
  CHECK(refused > 40);
  CHECK(written > 0);
  CHECK(read_sample(directory / "whole.h5") == expected);
}

TEST_CASE("a chunk that does not fit the file system is not lost silently") {
  const TempDirectory directory;
  const SmallFileSystem disk(directory.path(), 24 << 10);
  if (!disk.mounted()) return;
  int refused = 0, written = 0;
  // Each filler leaves another place where the space ends: in the chunks, in what describes them.
  for (std::size_t pages = 0; pages <= 5; ++pages) {
    CAPTURE(pages);
    put_contents(directory / "filler", std::string(pages * 4096, 'x'));
    REQUIRE(std::filesystem::file_size(directory / "filler") == pages * 4096);
    const std::string error = error_of([&] { write_sample(directory / "x.h5"); });
    if (error.empty())
      CHECK(read_sample(directory / "x.h5") == counted<float>(4000));
    else
      CHECK(contains(error, "x.h5: No space left on device"));
    ++(error.empty() ? written : refused);
    std::filesystem::remove(directory / "x.h5");
  }
  CHECK(refused > 2);
  CHECK(written > 0);
}

TEST_CASE("calls from several threads are serialised") {
  const TempDirectory directory;
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < errors.size(); ++t)
    threads.emplace_back([&, t] {
      try {
        const auto path = directory / fmt::format("{}.h5", t);
        for (int i = 0; i < 20; ++i) {
          write_sample(path);
          if (read_sample(path) != counted<float>(4000)) errors[t] = "other values";
        }
      } catch (const Error& error) {
        errors[t] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) CHECK(error == "");
}

}  // namespace halomesh
