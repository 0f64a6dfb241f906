// Checks of samples: see sample_checks.hpp.
// Knows nothing of files or formats.
#include "runtime/sample_checks.hpp"

#include <bit>
#include <cmath>

#include "error.hpp"

namespace halomesh {

void check_targets(std::span<const float> targets, const std::string& where) {
  for (std::size_t t = 0; t < targets.size(); ++t)
    if (!std::isfinite(targets[t]))
      throw Error(cat(where, ": target ", t, " is ", targets[t], ", expected a finite number"),
                  "remove the file or generate it again");
}

void NegativeSearch::take(std::int64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty() || found_) return;
  // The upper byte of a voxel, at an odd offset, has its sign.
  const auto first = static_cast<std::size_t>(1 - offset % 2);
  std::uint8_t seen = 0;
  for (std::size_t i = first; i < bytes.size(); i += 2)
    seen = static_cast<std::uint8_t>(seen | std::to_integer<std::uint8_t>(bytes[i]));
  for (std::size_t i = first; (seen & 0x80U) != 0 && !found_ && i < bytes.size(); i += 2) {
    if (std::to_integer<std::int8_t>(bytes[i]) >= 0) continue;
    const std::array<std::byte, 2> voxel{i == 0 ? last_ : bytes[i - 1], bytes[i]};
    found_ = {(offset + static_cast<std::int64_t>(i)) / 2, std::bit_cast<std::int16_t>(voxel)};
  }
  last_ = bytes.back();
}

void check_voxels(const std::optional<BlockWriter::Voxel>& negative, const Shape& block,
                  const std::array<std::int64_t, 4>& origin, const std::string& where) {
  if (!negative) return;
  const auto& [at, value] = *negative;
  const std::int64_t pixel = at / block.c;
  throw Error(cat(where, ": voxel (d,h,w,c) = (", origin[0] + pixel / block.w / block.h, ',',
                  origin[1] + pixel / block.w % block.h, ',', origin[2] + pixel % block.w, ',',
                  origin[3] + at % block.c, ") is ", value, ", expected a count of 0 or more"),
              "the data must be particle counts as int16: generate or convert the file again");
}

}  // namespace halomesh
