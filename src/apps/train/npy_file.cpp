// SPDX-License-Identifier: Apache-2.0
// NumPy's files: see npy_file.hpp.
#include "src/apps/train/npy_file.hpp"

#include <cstring>
#include <fstream>
#include <regex>
#include <utility>
#include <vector>

#include "error.hpp"

namespace halomesh {
namespace {

constexpr const char* kNpyHint =
    "write it with numpy.save as float32 of the shape (samples, channels, depth, height, width)";

}  // namespace

NpyFile::NpyFile(std::filesystem::path path) : path_(std::move(path)) {
  const auto expect = [&](bool condition, const char* what) {
    require(condition, text("{} {}", path_.string(), what), kNpyHint);
  };
  std::error_code error;
  expect(std::filesystem::is_regular_file(path_, error), "is no file");
  std::ifstream stream(path_, std::ios::binary);
  std::array<unsigned char, 12> head{};
  stream.read(reinterpret_cast<char*>(head.data()), 12);  // NOLINT: bytes as they are
  expect(stream.good() && std::memcmp(head.data(), "\x93NUMPY", 6) == 0, "is no .npy file");
  const bool is_long = head[6] > 1;
  const std::int64_t length =
      head[8] + 256 * head[9] + (is_long ? 65536 * (head[10] + std::int64_t{256} * head[11]) : 0);
  expect(length <= 65536, "has a damaged header");
  begin_ = (is_long ? 12 : 10) + length;
  std::string header(static_cast<std::size_t>(length), ' ');
  stream.seekg(begin_ - length).read(header.data(), length);
  std::smatch found;
  expect(stream.good() && std::regex_search(header, found, std::regex("'<f4'")) &&
             std::regex_search(header, found, std::regex("'fortran_order': *False")),
         "has no fp32 values in C order");
  expect(
      std::regex_search(header, found,
                        std::regex(R"(\((\d{1,9}), (\d{1,9}), (\d{1,9}), (\d{1,9}), (\d{1,9})\))")),
      "has not five axes");
  std::int64_t bytes = sizeof(float);
  for (std::size_t a = 0; a < extents_.size(); ++a) {
    extents_[a] = std::stoll(found[a + 1]);
    expect(extents_[a] > 0 && extents_[a] < (std::int64_t{1} << 44) / bytes,
           "has an absurd extent");
    bytes *= extents_[a];
  }
  expect(static_cast<std::int64_t>(std::filesystem::file_size(path_, error)) == begin_ + bytes,
         "has not the size that its header says");
}

void NpyFile::read(std::int64_t first, View view) const {
  std::ifstream stream(path_, std::ios::binary);
  const Box& box = view.span;
  const Shape s = shape();
  std::vector<float> row(static_cast<std::size_t>(box.extent(kW)));
  for (std::int64_t n = 0; n < view.batch; ++n)
    for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c)
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h) {
          const std::int64_t at =
              ((((first + n) * s.c + c) * s.d + d) * s.h + h) * s.w + box.lo[kW];
          stream.seekg(begin_ + at * std::int64_t{sizeof(float)});
          stream.read(reinterpret_cast<char*>(row.data()),  // NOLINT: bytes of fp32
                      std::ssize(row) * std::int64_t{sizeof(float)});
          for (std::int64_t w = 0; w < std::ssize(row); ++w)
            view.at(n, c, d, h, box.lo[kW] + w) = row[static_cast<std::size_t>(w)];
        }
  require(stream.good(), text("cannot read {}", path_.string()), "check its permissions");
}

std::string npy_header(std::int64_t samples, const Shape& s) {
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}, {}, {}, {}), }}",
                  samples, s.c, s.d, s.h, s.w);
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  header.append(kAlignment - 1 - (kPrefix + header.size()) % kAlignment, ' ');
  header += '\n';
  std::string prefix("\x93NUMPY\x01\x00", 8);
  prefix += static_cast<char>(header.size() % 256);
  prefix += static_cast<char>(header.size() / 256);
  return prefix + header;
}

}  // namespace halomesh
