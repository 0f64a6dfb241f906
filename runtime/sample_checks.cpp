// Checks of samples: see sample_checks.hpp.
// Knows nothing of files or formats.
#include "runtime/sample_checks.hpp"

#include <cmath>

#include "error.hpp"

namespace halomesh {

void check_targets(std::span<const float> targets, const std::string& where) {
  for (std::size_t t = 0; t < targets.size(); ++t)
    if (!std::isfinite(targets[t]))
      throw Error(cat(where, ": target ", t, " is ", targets[t], ", expected a finite number"),
                  "remove the file or generate it again");
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
