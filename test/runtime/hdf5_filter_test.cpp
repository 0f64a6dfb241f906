// Filters of HDF5 by number: their names, and what is wrong with those that cannot be used.
// Takes those that every HDF5 library has: 1 is gzip, 5 n-bit, 6 scale-offset.
#include "runtime/hdf5_filter.hpp"

#include <doctest/doctest.h>

#include <string>

#include "error.hpp"

namespace halomesh {
namespace {

std::string error_of(const char* name) {
  try {
    require_filter(filter_named(name).value());
  } catch (const Error& error) {
    CHECK(!error.hint().empty());
    return error.what();
  }
  return {};
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("HDF5 filter: its name is its number and values") {
  CHECK(filter_named("5") == Hdf5Filter{5, {}});
  CHECK(filter_named("32015,3") == Hdf5Filter{32015, {3}});
  CHECK(cat(Hdf5Filter{4, {160, 16}}) == "4,160,16");
  for (const char* const name : {"", "0", "gzip", "-4", "4,", ",4", "4,,1", "4,x", "4 ", "65536",
                                 "4294967299", "4.5", "4,-1"})
    CHECK_MESSAGE(!filter_named(name), name);
}

TEST_CASE("HDF5 filter: those of the library work") {
  for (const char* const name : {"1,5", "6,2,0"}) CHECK_MESSAGE(error_of(name).empty(), name);
}

TEST_CASE("HDF5 filter: one that is not there, refuses its values or loses counts") {
  CHECK(contains(error_of("60000"), "no filter 60000"));
  CHECK(contains(error_of("6"), "cannot compress by filter 6: "));
  CHECK(contains(error_of("6,2,3"), "filter 6,2,3 changes counts"));
  CHECK(contains(error_of("5"), "filter 5 changes counts"));  // those at the end of a chunk
}

}  // namespace
}  // namespace halomesh
