// SPDX-License-Identifier: Apache-2.0
// Data that a file only seems to hold: for all of them the HDF5 library reads fill values.
#include <doctest/doctest.h>
#include <hdf5.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "runtime/hdf5/hdf5_file.hpp"
#include "test/harness/temp_files.hpp"

namespace halomesh {
namespace {

namespace fs = std::filesystem;

/// Makes /x of `rows` x 4 int32 by `set` on its creation properties, and writes `written` rows.
void make(const fs::path& path, hsize_t rows, hsize_t written,
          const std::function<void(hid_t options, hid_t space)>& set) {
  Hdf5File::library_version();  // starts the library as the program does
  const std::array<hsize_t, 2> extents{rows, 4}, some{written, 4}, first{0, 0};
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, extents.data(), nullptr);
  const hid_t options = H5Pcreate(H5P_DATASET_CREATE);
  set(options, space);
  const hid_t x =
      H5Dcreate2(file, "/x", H5T_NATIVE_INT32, space, H5P_DEFAULT, options, H5P_DEFAULT);
  REQUIRE(x >= 0);
  if (written > 0) {
    const hid_t memory = H5Screate_simple(2, some.data(), nullptr);
    const std::vector<std::int32_t> values(written * 4, 7);
    REQUIRE(H5Sselect_hyperslab(space, H5S_SELECT_SET, first.data(), nullptr, some.data(),
                                nullptr) >= 0);
    REQUIRE(H5Dwrite(x, H5T_NATIVE_INT32, memory, space, H5P_DEFAULT, values.data()) >= 0);
    H5Sclose(memory);
  }
  H5Dclose(x);
  H5Pclose(options);
  H5Sclose(space);
  REQUIRE(H5Fclose(file) >= 0);
}

void plain(hid_t, hid_t) {}

/// A virtual dataset of 4 rows, of which each source, all of one dataset, has 2.
void make_virtual(const fs::path& path, const std::vector<std::string>& sources,
                  const char* name = "/x") {
  make(path, 4, 0, [&](hid_t options, hid_t space) {
    const std::array<hsize_t, 2> rows{2, 4};
    const hid_t source = H5Screate_simple(2, rows.data(), nullptr);
    for (hsize_t i = 0; i < sources.size(); ++i) {
      const std::array<hsize_t, 2> first{2 * i, 0};
      REQUIRE(H5Sselect_hyperslab(space, H5S_SELECT_SET, first.data(), nullptr, rows.data(),
                                  nullptr) >= 0);
      REQUIRE(H5Pset_virtual(options, space, sources[i].c_str(), name, source) >= 0);
    }
    REQUIRE(H5Sselect_all(space) >= 0);
    H5Sclose(source);
  });
}

std::string problem(const fs::path& path) {
  return error_of([&] { Hdf5File::open(path).require_stored("/x"); });
}

/// The error of reading alone, without asking first.
std::string reading_problem(const fs::path& path) {
  return error_of([&] {
    std::vector<std::int32_t> values(16);
    Hdf5File::open(path).read<std::int32_t>("/x", Slab::whole({4, 4}), values);
    CHECK(values == std::vector<std::int32_t>(16, 7));
  });
}

}  // namespace

TEST_CASE("sources of a virtual dataset are found where the library looks, or named") {
  const TempDirectory directory;
  const fs::path file = directory / "v.h5";
  fs::create_directories(directory / "sources");
  make(directory / "sources" / "a.h5", 2, 2, plain);
  make(directory / "b.h5", 2, 2, plain);
  make_virtual(file, {(directory / "sources" / "a.h5").string(), "b.h5"});
  CHECK(problem(file).empty());
  CHECK(reading_problem(file).empty());
  CHECK(Hdf5File::open(file).require_stored("/x") ==
        std::vector<fs::path>{directory / "sources" / "a.h5", directory / "b.h5"});
  // An absolute name that does not exist is looked for beside the file.
  fs::rename(directory / "sources" / "a.h5", directory / "a.h5");
  CHECK(problem(file).empty());
  CHECK(reading_problem(file).empty());
  fs::create_directories(directory / "elsewhere");
  fs::rename(directory / "b.h5", directory / "elsewhere" / "b.h5");
  CHECK(contains(problem(file), "v.h5: /x: a virtual dataset whose source b.h5 does not exist"));
  CHECK(contains(reading_problem(file), "source b.h5 does not exist"));
  ::setenv("HDF5_VDS_PREFIX", "/nowhere:${ORIGIN}/elsewhere", 1);
  CHECK(problem(file).empty());
  ::unsetenv("HDF5_VDS_PREFIX");
}

TEST_CASE("a virtual dataset whose sources hold less than it says is refused") {
  const TempDirectory directory;
  const fs::path file = directory / "v.h5";
  make(directory / "a.h5", 2, 2, plain);
  make(directory / "short.h5", 1, 1, plain);
  make(directory / "unwritten.h5", 2, 0, plain);
  put_contents(directory / "junk.h5", "junk");
  make_virtual(file, {"a.h5"});
  CHECK(contains(problem(file), "its sources give 8 of its 16 elements"));
  make_virtual(file, {"a.h5", "short.h5"});
  CHECK(contains(problem(file), "short.h5 has /x of 1x4, too few elements"));
  make_virtual(file, {"a.h5", "unwritten.h5"});
  CHECK(contains(problem(file), "unwritten.h5: /x: its elements were never written"));
  make_virtual(file, {"a.h5", "junk.h5"});
  CHECK(contains(problem(file), "junk.h5 cannot be opened"));
  make_virtual(file, {"a.h5", "a.h5"}, "/y");
  CHECK(contains(reading_problem(file), "a.h5 has no dataset /y"));
  const auto make_source = [&](const char* name, auto value) {
    Hdf5File source = Hdf5File::create(directory / name);
    source.create_dataset("/x", hdf5_type<decltype(value)>(), {2, 4});
    source.write<decltype(value)>("/x", Slab::whole({2, 4}), std::vector(8, value));
    source.close();
    make_virtual(file, {"a.h5", name});
    return reading_problem(file);
  };
  CHECK(make_source("narrow.h5", std::int16_t{7}).empty());
  CHECK(make_source("unsigned.h5", std::uint16_t{7}).empty());
  CHECK(contains(make_source("fractions.h5", 0.5F), "a virtual dataset of int32 whose source " +
                                                        (directory / "fractions.h5").string() +
                                                        " has /x of float32"));
  CHECK(contains(make_source("wide.h5", std::int64_t{7}), "has /x of int64"));
  CHECK(contains(make_source("positive.h5", std::uint32_t{7}), "has /x of uint32"));
  // A virtual dataset of virtual datasets.
  make_virtual(directory / "inner.h5", {"gone.h5", "a.h5"});
  make(directory / "outer.h5", 4, 0, [&](hid_t options, hid_t space) {
    REQUIRE(H5Pset_virtual(options, space, "inner.h5", "/x", space) >= 0);
  });
  CHECK(contains(reading_problem(directory / "outer.h5"),
                 "inner.h5: /x: a virtual dataset whose source gone.h5 does not exist"));
}

TEST_CASE("a virtual dataset may be of datasets in its own file") {
  const TempDirectory directory;
  const fs::path path = directory / "v.h5";
  make(path, 4, 4, plain);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t x = H5Dopen2(file, "/x", H5P_DEFAULT), space = H5Dget_space(x);
  const hid_t options = H5Pcreate(H5P_DATASET_CREATE);
  REQUIRE(H5Pset_virtual(options, space, ".", "/x", space) >= 0);
  const hid_t v =
      H5Dcreate2(file, "/v", H5T_NATIVE_INT32, space, H5P_DEFAULT, options, H5P_DEFAULT);
  REQUIRE(v >= 0);
  for (const auto closed :
       {H5Dclose(v), H5Pclose(options), H5Sclose(space), H5Dclose(x), H5Fclose(file)})
    REQUIRE(closed >= 0);
  Hdf5File opened = Hdf5File::open(path);
  CHECK(opened.require_stored("/v").empty());
  for (const char* const name : {"/v", "/x", "/v"}) {
    std::vector<std::int32_t> values(16);
    opened.read<std::int32_t>(name, Slab::whole({4, 4}), values);
    CHECK(values == std::vector<std::int32_t>(16, 7));
  }
}

TEST_CASE("numbered sources of a virtual dataset are looked for one by one") {
  const TempDirectory directory;
  const fs::path file = directory / "v.h5";
  for (const char* const name : {"n-0.h5", "n-1.h5", "n-2.h5"}) make(directory / name, 2, 2, plain);
  const std::array<hsize_t, 2> extents{2, 4}, most{H5S_UNLIMITED, 4}, first{0, 0}, stride{2, 4},
      count{H5S_UNLIMITED, 1};
  const hid_t made = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t all = H5Screate_simple(2, extents.data(), most.data());
  const hid_t source = H5Screate_simple(2, extents.data(), nullptr);
  const hid_t options = H5Pcreate(H5P_DATASET_CREATE);
  REQUIRE(H5Sselect_hyperslab(all, H5S_SELECT_SET, first.data(), stride.data(), count.data(),
                              extents.data()) >= 0);
  REQUIRE(H5Pset_virtual(options, all, "n-%b.h5", "/x", source) >= 0);
  REQUIRE(H5Sselect_all(all) >= 0);
  const hid_t x = H5Dcreate2(made, "/x", H5T_NATIVE_INT32, all, H5P_DEFAULT, options, H5P_DEFAULT);
  REQUIRE(x >= 0);
  for (const auto close :
       {H5Dclose(x), H5Pclose(options), H5Sclose(source), H5Sclose(all), H5Fclose(made)})
    REQUIRE(close >= 0);
  CHECK(problem(file).empty());
  CHECK(Hdf5File::open(file).extents("/x") == Extents{6, 4});
}

TEST_CASE("a raw file that is missing or short is named") {
  const TempDirectory directory;
  const fs::path raw = directory / "x.raw";
  make(directory / "e.h5", 4, 4, [&](hid_t options, hid_t) {
    REQUIRE(H5Pset_external(options, raw.c_str(), 8, H5F_UNLIMITED) >= 0);
  });
  CHECK(fs::file_size(raw) == 8 + 64);
  CHECK(problem(directory / "e.h5").empty());
  CHECK(reading_problem(directory / "e.h5").empty());
  fs::resize_file(raw, 40);
  CHECK(contains(reading_problem(directory / "e.h5"), "x.raw, which has 40 of 72 bytes"));
  fs::remove(raw);
  CHECK(contains(reading_problem(directory / "e.h5"), "x.raw, No such file"));
}

TEST_CASE("a filter that is not installed is named, before anything is read") {
  const TempDirectory directory;
  const fs::path file = directory / "f.h5";
  const std::array<hsize_t, 2> rows{2, 4};
  make(file, 4, 0, [&](hid_t options, hid_t) {
    H5Pset_chunk(options, 2, rows.data());
    REQUIRE(H5Pset_filter(options, 32000, H5Z_FLAG_OPTIONAL, 0, nullptr) >= 0);  // lzf of h5py
  });
  CHECK(contains(reading_problem(file), "/x is stored with the HDF5 filter 32000"));
  CHECK(contains(reading_problem(file), "h5repack"));
}

TEST_CASE("elements that were never written are counted") {
  const TempDirectory directory;
  const std::array<hsize_t, 2> rows{2, 4};
  const auto chunked = [&](hid_t options, hid_t) { H5Pset_chunk(options, 2, rows.data()); };
  make(directory / "all.h5", 4, 4, chunked);
  CHECK(problem(directory / "all.h5").empty());
  make(directory / "half.h5", 4, 2, chunked);
  CHECK(contains(problem(directory / "half.h5"), "half.h5: /x: 1 of its 2 chunks were never"));
  make(directory / "none.h5", 4, 0, plain);
  CHECK(contains(problem(directory / "none.h5"), "none.h5: /x: its elements were never written"));
}

}  // namespace halomesh
