// SPDX-License-Identifier: Apache-2.0
// Arrays of NumPy's .npz files, as numpy.savez writes them, for values that tests compare with.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "error.hpp"

namespace halomesh {

struct NpyArray {
  std::vector<std::int64_t> dims{};
  std::vector<double> values{};  ///< in C order

  double largest() const {
    double most = 0;
    for (const double value : values) most = std::max(most, std::abs(value));
    return most;
  }
};

namespace npz_bytes {

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value{};
  require(at + sizeof(T) <= bytes.size(), "an .npz file is cut off");
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void append_values(const std::string& bytes, std::size_t begin, std::size_t count,
                   std::vector<double>& values) {
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(number_at<T>(bytes, begin + i * sizeof(T))));
}

/// The array of a .npy file that begins at `at`.
inline NpyArray array_at(const std::string& bytes, std::size_t at) {
  const std::size_t length = number_at<std::uint16_t>(bytes, at + 8), begin = at + 10 + length;
  const std::string header = bytes.substr(at + 10, length);
  NpyArray array;
  std::size_t count = 1;
  std::int64_t dim = -1;
  for (std::size_t i = header.find('(') + 1; i < header.find(')') + 1; ++i) {
    if (header[i] >= '0' && header[i] <= '9') {
      dim = std::max<std::int64_t>(dim, 0) * 10 + (header[i] - '0');
    } else if (dim >= 0) {
      array.dims.push_back(dim);
      count *= static_cast<std::size_t>(dim);
      dim = -1;
    }
  }
  require(header.find("'fortran_order': False") != std::string::npos, "an array in another order");
  if (header.find("'<f4'") != std::string::npos)
    append_values<float>(bytes, begin, count, array.values);
  else if (header.find("'<f8'") != std::string::npos)
    append_values<double>(bytes, begin, count, array.values);
  else
    throw Error("an array of another type: " + header);
  return array;
}

}  // namespace npz_bytes

/// All arrays of an .npz file, whose members must not be compressed.
inline std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path) {
  using namespace npz_bytes;  // NOLINT
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = bytes.rfind("PK\x05\x06");
  require(end != std::string::npos, text("{} is no .npz file", path.string()));
  std::map<std::string, NpyArray> arrays;
  std::size_t at = number_at<std::uint32_t>(bytes, end + 16);
  for (auto members = number_at<std::uint16_t>(bytes, end + 10); members > 0; --members) {
    const std::size_t name = number_at<std::uint16_t>(bytes, at + 28);
    require(number_at<std::uint16_t>(bytes, at + 10) == 0, "a compressed .npz file");
    const std::string key = bytes.substr(at + 46, name);
    const std::size_t local = number_at<std::uint32_t>(bytes, at + 42);
    arrays[key.substr(0, key.size() - 4)] =
        array_at(bytes, local + 30 + number_at<std::uint16_t>(bytes, local + 26) +
                            number_at<std::uint16_t>(bytes, local + 28));
    at += 46 + name + number_at<std::uint16_t>(bytes, at + 30) +
          number_at<std::uint16_t>(bytes, at + 32);
  }
  return arrays;
}

}  // namespace halomesh
