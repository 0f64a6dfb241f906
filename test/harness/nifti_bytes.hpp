// SPDX-License-Identifier: Apache-2.0
// Uncompressed NIfTI files, byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#include "shape.hpp"

namespace halomesh {

/// The header of a NIfTI-1 file of little-endian values (nifti.nimh.nih.gov), whose first axis
/// varies fastest.
inline std::string nifti_header(const Spatial& n, std::int16_t type, std::int16_t bits, float slope,
                                float shift) {
  std::string bytes(352, '\0');
  const auto put = [&](std::size_t at, const auto& value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  put(0, std::int32_t{348});
  const std::int16_t dim[8] = {3,
                               static_cast<std::int16_t>(n[0]),
                               static_cast<std::int16_t>(n[1]),
                               static_cast<std::int16_t>(n[2]),
                               1,
                               1,
                               1,
                               1};
  put(40, dim);
  put(70, type);
  put(72, bits);
  const float pixdim[8] = {1, 3, 0.75F, 0.75F, 1, 1, 1, 1};
  put(76, pixdim);
  put(108, 352.0F);
  put(112, slope);
  put(116, shift);
  std::memcpy(bytes.data() + 344, "n+1", 4);
  return bytes;
}

/// A file of values of this NIfTI type; `of` returns the stored values.
template <class T>
std::string nifti_volume(
    const Spatial& n, std::int16_t type, float slope, float shift,
    const std::function<T(std::int64_t d, std::int64_t h, std::int64_t w)>& of) {
  std::string bytes = nifti_header(n, type, 8 * sizeof(T), slope, shift);
  for (std::int64_t w = 0; w < n[2]; ++w)
    for (std::int64_t h = 0; h < n[1]; ++h)
      for (std::int64_t d = 0; d < n[0]; ++d) {
        const T value = of(d, h, w);
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);  // NOLINT: bytes
      }
  return bytes;
}

}  // namespace halomesh
