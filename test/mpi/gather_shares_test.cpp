// SPDX-License-Identifier: Apache-2.0
// Each twin has all slots after gather_shares(), wherever they were staged, and every node one
// copy.
#include "runtime/stage/gather_shares.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "partition/partition.hpp"
#include "runtime/stage/stage_directory.hpp"
#include "test/harness/mpi_for_comms.hpp"
#include "test/harness/mpi_shared_directory.hpp"
#include "test/harness/stage_counts.hpp"
#include "test/harness/test_comm.hpp"

namespace halomesh {
namespace {

constexpr std::int64_t kBlock = 1500;

/// Slots have blocks of a size of their own, some of them none; those of `block` 0 all have none.
std::int64_t size_of_block(std::int64_t slot, std::int64_t block) {
  return slot % 4 == 3 ? 0 : block - block / 3 * (slot % 3);
}

std::vector<std::int64_t> values_of(const Range& slots, std::int64_t block) {
  std::vector<std::int64_t> values;
  for (std::int64_t slot = slots.lo; slot < slots.hi; ++slot)
    values.push_back(size_of_block(slot, block));
  return values;
}

std::int64_t bytes_of(const Range& slots, std::int64_t block) {
  std::int64_t bytes = 0;
  for (const std::int64_t values : values_of(slots, block)) bytes += 2 * values;
  return bytes;
}

std::vector<std::int16_t> block_of(std::int64_t slot, std::int64_t block) {
  std::vector<std::int16_t> counts(static_cast<std::size_t>(size_of_block(slot, block)));
  for (std::size_t i = 0; i < counts.size(); ++i)
    counts[i] = static_cast<std::int16_t>((static_cast<std::size_t>(slot) * 31 + i * i) % 251);
  return counts;
}

/// The slots of a share, the last first.
StageFile staged(const StageDirectory& directory, const Range& share, StageCodec codec,
                 std::int64_t block) {
  StageFile file(directory.nameless_file(), "test", codec, values_of(share, block),
                 DataType::kInt16);
  for (std::int64_t i = file.slots() - 1; i >= 0; --i)
    if (const auto counts = block_of(share.lo + i, block); !counts.empty())
      write_block(file, i, counts);
  file.finish();
  return file;
}

/// `of_node`: twins that share a node, as if there were several.
void check_gathering(const Comm& twins, const StageDirectory& directory, int of_node,
                     std::int64_t slots, StageCodec codec, std::int64_t block, Findings& findings) {
  const Comm node = twins.split(twins.rank() / of_node, twins.rank());
  const Range share = block_range(slots, twins.size(), twins.rank());
  const StageFile mine = staged(directory, share, codec, block);
  const std::int64_t near = node.sum(bytes_of(share, block));
  GatheredShares all = gather_shares(twins, node, values_of({0, slots}, block), mine,
                                     Descriptor(directory.nameless_file()));
  findings.expect_equal(all.file.slots(), slots, "slots");
  if (codec == StageCodec::kNone)
    findings.expect_equal(all.copied_bytes,
                          node.rank() == 0 ? bytes_of({0, slots}, block) - near : 0,
                          "bytes copied");
  for (std::int64_t slot = 0; slot < all.file.slots(); ++slot) {
    std::vector<std::int16_t> room(static_cast<std::size_t>(size_of_block(slot, block)));
    const auto got = read_block(all.file, slot, room);
    const auto expected = block_of(slot, block);
    findings.expect(std::equal(expected.begin(), expected.end(), got.begin(), got.end()),
                    [&] { return fmt::format("other counts in slot {}", slot); });
  }
}

}  // namespace

TEST_CASE("gather_shares: all slots on every twin, on one node, on several, on each its own") {
  const SharedDirectory shared(test_world());
  for_comms("gathering shares", {1, 2, 3, 4, 6}, [&](const Comm& twins, Findings& findings) {
    const StageDirectory directory(shared.path());
    for (const int of_node : {1, 2, 4})
      for (const StageCodec codec : {StageCodec::kNone, StageCodec::kDeflate}) {
        for (const std::int64_t slots : {0, 2, 13})
          check_gathering(twins, directory, of_node, slots, codec, kBlock, findings);
        check_gathering(twins, directory, of_node, 5, codec, 0, findings);
      }
  });
}

}  // namespace halomesh
