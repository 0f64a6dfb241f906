// SPDX-License-Identifier: Apache-2.0
// Headers of .npy files written by hand, blocks in both orders, and what is no such file.
#include "runtime/hdf5/npy_array.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "runtime/hdf5/hdf5_file.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

/// A file with this header, and the bytes of 0, 1, 2, ... of two bytes each behind it.
std::string npy(int version, const std::string& header, std::int64_t elements, bool big = false) {
  std::string file =
      "\x93NUMPY" + std::string(1, static_cast<char>(version)) + std::string(1, '\0');
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    file += static_cast<char>(header.size() >> (8 * static_cast<unsigned>(i)) & 0xFFU);
  file += header;
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::string bytes{static_cast<char>(i & 0xFF), static_cast<char>(i >> 8)};
    file += big ? std::string(bytes.rbegin(), bytes.rend()) : bytes;
  }
  return file;
}

std::vector<std::int16_t> block_of(const NpyArray& array, const Slab& block) {
  std::int64_t volume = 1;
  for (const std::int64_t count : block.count) volume *= count;
  std::vector<std::int16_t> values(static_cast<std::size_t>(volume));
  array.read(block, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST_CASE("npy: every version, order and byte order gives the same blocks") {
  const TempDirectory directory;
  const auto path = directory / "a.npy";
  const Slab block{{1, 0, 2}, {1, 2, 2}};
  for (const int version : {1, 2, 3})
    for (const bool big : {false, true}) {
      put_contents(path, npy(version,
                             std::string("{'shape': (2, 3, 4), 'fortran_order': False, ") +
                                 (big ? "'descr': '>i2', }\n" : "'descr': '<i2'}   \n"),
                             24, big));
      const NpyArray array(path);
      CHECK(array.type() == Hdf5Type::kInt16);
      CHECK(array.extents() == Extents{2, 3, 4});
      CHECK(block_of(array, block) == std::vector<std::int16_t>{14, 15, 18, 19});
      std::vector<std::int16_t> all(24);
      std::iota(all.begin(), all.end(), std::int16_t{0});
      CHECK(block_of(array, Slab::whole({2, 3, 4})) == all);
    }
  put_contents(path,
               npy(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2L, 3L, 4L), }\n", 24));
  // Element (d,h,w) is number d + 2 h + 6 w.
  CHECK(block_of(NpyArray(path), block) == std::vector<std::int16_t>{13, 19, 15, 21});
  Hdf5File file = Hdf5File::open(path);
  CHECK(file.holds(Hdf5File::kArray, Hdf5Type::kInt16));
  std::vector<std::int16_t> values(4);
  file.read<std::int16_t>(Hdf5File::kArray, block, values);
  CHECK(values == std::vector<std::int16_t>{13, 19, 15, 21});
}

TEST_CASE("npy: what is no array of numbers is told") {
  const TempDirectory directory;
  const auto path = directory / "a.npy";
  const auto error = [&](const std::string& bytes) {
    put_contents(path, bytes);
    return error_of([&] { const NpyArray array(path); });
  };
  const std::string shape = "'fortran_order': False, 'shape': (3,)}";
  CHECK(contains(error("hello"), "a.npy: it has no header of version 1, 2 or 3"));
  CHECK(contains(error(npy(4, "{}", 0)), "no header of version 1, 2 or 3"));
  CHECK(contains(error(npy(1, "{'descr': '<f2', " + shape, 3)), "elements of '<f2'"));
  CHECK(contains(error(npy(1, "{'descr': '<f2', " + shape, 3)), "save it as float32"));
  CHECK(contains(error(npy(1, "{'descr': '<i2', " + shape, 2)), "it has 4 of the 6 bytes"));
  CHECK(contains(error(npy(1, "{'descr': '<i2', 'fortran_order': False, 'shape': (0,)}", 0)),
                 "it holds no element"));
  CHECK(contains(error(npy(1, "{'descr': '<i2'}", 3)), "no shape or no order"));
}

}  // namespace
}  // namespace halomesh
