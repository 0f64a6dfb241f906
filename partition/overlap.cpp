// The order of chunks: see overlap.hpp.
#include "partition/overlap.hpp"

namespace halomesh {

std::vector<Chunk> order_chunks(const Box& dst, const std::function<bool(const Box&)>& is_local) {
  if (dst.empty()) return {};
  std::int64_t lo = dst.lo[kD];
  const std::int64_t end = dst.hi[kD];
  const auto plane_is_local = [&](std::int64_t d) { return is_local(with_d_range(dst, d, d + 1)); };
  while (lo < end && !plane_is_local(lo)) ++lo;
  std::int64_t hi = lo;
  while (hi < end && plane_is_local(hi)) ++hi;
  if (lo == hi) return {{dst, true}};
  std::vector<Chunk> chunks{{with_d_range(dst, lo, hi), false}};
  if (dst.lo[kD] < lo) chunks.push_back({with_d_range(dst, dst.lo[kD], lo), true});
  if (hi < end) chunks.push_back({with_d_range(dst, hi, end), true});
  return chunks;
}

}  // namespace halomesh
