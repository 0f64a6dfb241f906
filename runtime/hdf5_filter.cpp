// Filters of HDF5 by number: see hdf5_filter.hpp.
#include "runtime/hdf5_filter.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <ostream>

#include "error.hpp"
#include "runtime/hdf5_library.hpp"

namespace halomesh {

using hdf5::Handle;
using hdf5::Turn;

namespace {

constexpr std::array<hsize_t, 4> kChunk{8, 8, 64, 4};
constexpr std::size_t kElements = 8 * 8 * 64 * 4;

using Counts = std::vector<std::int16_t>;

// As those of a universe's: small, with a larger one here and there.
Counts some_counts() {
  Counts counts(kElements);
  for (std::size_t i = 0; i < kElements; ++i)
    counts[i] = static_cast<std::int16_t>(i % 97 == 0 ? i % 1000 : i % 3);
  return counts;
}

void check(bool well, const Hdf5Filter& filter, const char* what) {
  require(well, cat("the HDF5 library cannot ", what, " by filter ", filter, ": ", hdf5::reason()),
          "see the filter's documentation for its values, or use --codec gzip");
}

// With what archives have before and after it: beside a checksum, n-bit damages the end of a chunk.
// Chunks are written when the dataset is closed, and read anew once it is opened again.
void expect_counts_back(hid_t file, const Hdf5Filter& filter) {
  constexpr const char* kName = "x";
  const Counts counts = some_counts();
  const Handle options(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const auto set = [&](herr_t result) { check(result >= 0, filter, "compress"); };
  set(H5Pset_chunk(options, static_cast<int>(kChunk.size()), kChunk.data()));
  set(H5Pset_shuffle(options));
  set(H5Pset_filter(options, filter.number, H5Z_FLAG_MANDATORY, filter.values.size(),
                    filter.values.data()));
  set(H5Pset_fletcher32(options));
  const Handle space(H5Screate_simple(static_cast<int>(kChunk.size()), kChunk.data(), nullptr),
                     H5Sclose);
  const hid_t id =
      H5Dcreate2(file, kName, H5T_NATIVE_INT16, space, H5P_DEFAULT, options, H5P_DEFAULT);
  check(id >= 0, filter, "compress");
  const herr_t written =
      H5Dwrite(id, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, counts.data());
  const herr_t closed = H5Dclose(id);
  check(written >= 0 && closed >= 0, filter, "compress");

  const Handle again(H5Dopen2(file, kName, H5P_DEFAULT), H5Dclose);
  Counts back(kElements);
  check(H5Dread(again, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, back.data()) >= 0, filter,
        "decompress");
  require(back == counts, cat("HDF5 filter ", filter, " changes counts"),
          "use one that loses nothing, or --codec gzip");
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Hdf5Filter& filter) {
  out << filter.number;
  for (const unsigned value : filter.values) out << ',' << value;
  return out;
}

std::optional<Hdf5Filter> filter_named(std::string_view text) {
  std::vector<unsigned> numbers;
  const char *at = text.data(), *const end = at + text.size();
  for (bool more = true; more;) {
    const auto [after, code] = std::from_chars(at, end, numbers.emplace_back());
    if (code != std::errc()) return std::nullopt;
    more = after != end && *after == ',';
    if (!more && after != end) return std::nullopt;
    at = after + (more ? 1 : 0);
  }
  if (numbers[0] == 0 || numbers[0] > H5Z_FILTER_MAX) return std::nullopt;
  return Hdf5Filter{static_cast<int>(numbers[0]), {numbers.begin() + 1, numbers.end()}};
}

bool has_filter(int number) {
  const Turn turn;
  return H5Zfilter_avail(number) > 0;
}

void require_filter(const Hdf5Filter& filter) {
  const Turn turn;
  require(has_filter(filter.number), cat("the HDF5 library has no filter ", filter.number),
          "install its plugin where HDF5_PLUGIN_PATH says, on every node, or use --codec gzip");
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  constexpr std::size_t kGrowth = 1 << 16;
  H5Pset_fapl_core(access, kGrowth, false);  // in memory alone
  const Handle file(H5Fcreate("halomesh-filter", H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose);
  check(file >= 0, filter, "compress");
  expect_counts_back(file, filter);
}

}  // namespace halomesh
