// SPDX-License-Identifier: Apache-2.0
// NumPy's files: see npy_file.hpp.
#include "src/apps/train/npy_file.hpp"

#include <span>
#include <vector>

#include "error.hpp"
#include "system_error.hpp"

namespace halomesh {
namespace {

constexpr const char* kNpyHint =
    "give an array that numpy.save wrote, float32 of the shape (samples, channels, depth, height, "
    "width)";

/// Throws Error with the hint of this file where the file is none that numpy.save writes.
NpyArray opened_array(const std::filesystem::path& path) {
  try {
    return NpyArray(path);
  } catch (const ReadError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.what(), kNpyHint);
  }
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& path) : array_(opened_array(path)) {
  require(array_.type() == Hdf5Type::kFloat, text("{} has no float32 values", path.c_str()),
          kNpyHint);
  require(array_.extents().size() == 5,
          text("{} has {} axes instead of 5", path.c_str(), array_.extents().size()), kNpyHint);
}

void NpyFile::read(std::int64_t first, View view) const {
  const Box& box = view.span;
  std::vector<float> values(static_cast<std::size_t>(box.volume()));
  for (std::int64_t n = 0; n < view.batch; ++n) {
    array_.read({{first + n, box.lo[kC], box.lo[kD], box.lo[kH], box.lo[kW]},
                 {1, box.extent(kC), box.extent(kD), box.extent(kH), box.extent(kW)}},
                std::as_writable_bytes(std::span(values)));
    const float* value = values.data();
    for (std::int64_t c = box.lo[kC]; c < box.hi[kC]; ++c)
      for (std::int64_t d = box.lo[kD]; d < box.hi[kD]; ++d)
        for (std::int64_t h = box.lo[kH]; h < box.hi[kH]; ++h)
          for (std::int64_t w = box.lo[kW]; w < box.hi[kW]; ++w) view.at(n, c, d, h, w) = *value++;
  }
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
