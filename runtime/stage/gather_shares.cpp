// SPDX-License-Identifier: Apache-2.0
// The exchange of a stage's shares: see gather_shares.hpp.
#include "runtime/stage/gather_shares.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "partition/partition.hpp"
#include "runtime/posix/process_file.hpp"

namespace halomesh {
namespace {

using Placed = StageFile::Placed;

constexpr std::size_t kPieceBytes = 8 << 20;  // bytes of one broadcast
// The number of the file of copies among a rank's files.
constexpr std::int64_t kCopies = 0;

/// The files of a rank and the slots in them.
struct Share {
  std::vector<ProcessFile> files;
  std::vector<Placed> slots;
};

std::string to_text(const Share& share) {
  std::ostringstream text;
  text << share.files.size() << ' ' << share.slots.size();
  for (const ProcessFile& file : share.files) text << ' ' << file;
  for (const auto& [slot, e] : share.slots)
    text << ' ' << slot << ' ' << e.file << ' ' << e.offset << ' ' << e.bytes << ' ' << e.checksum;
  return text.str();
}

Share share_of(const std::string& text) {
  std::istringstream in(text);
  Share share;
  std::size_t files = 0, slots = 0;
  in >> files >> slots;
  share.files.resize(files);
  share.slots.resize(slots);
  for (ProcessFile& file : share.files) in >> file;
  for (auto& [slot, e] : share.slots) in >> slot >> e.file >> e.offset >> e.bytes >> e.checksum;
  return share;
}

/// Adds the files of another rank and the slots in them.
void include(StageFile& all, const Share& share) {
  std::vector<Descriptor> files;
  for (const ProcessFile& file : share.files) {
    files.push_back(file.open());
    require(files.back().get() >= 0,
            text("cannot open the blocks of the stage {} that another rank of this node has stored",
                 all.name()),
            "run again, or leave out --stage-dir");
  }
  all.include(std::move(files), share.slots);
}

/// Adds the slots that the ranks of `near` have staged. Collective.
void include_near(const Comm& twins, const Comm& near, const StageFile& mine, StageFile& all) {
  const std::int64_t first = block_range(all.slots(), twins.size(), twins.rank()).lo;
  Share own;
  std::vector<Descriptor> files;
  for (const MappedFile& file : mine.files()) {
    own.files.push_back(ProcessFile::of(file.file()));
    files.emplace_back(::fcntl(file.file().get(), F_DUPFD_CLOEXEC, 0));
    require(files.back().get() >= 0, text("cannot open the stage {} again", mine.name()),
            "raise the limit of open files: ulimit -n");
  }
  for (std::int64_t slot = 0; slot < mine.slots(); ++slot)
    own.slots.push_back({first + slot, mine.index()[static_cast<std::size_t>(slot)]});
  const std::vector<std::string> shares = near.all_gather(to_text(own));
  all.include(std::move(files), own.slots);
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (static_cast<int>(i) != near.rank()) include(all, share_of(shares[i]));
  near.barrier();  // nobody closes a file before all have opened it
}

/// Passes the slots that each leader's ranks have staged to the other leaders, which store them.
/// Collective over `leaders`. Returns the bytes stored.
std::int64_t copy_far(const Comm& leaders, StageFile& all) {
  Share near;
  for (std::int64_t slot = 0; slot < all.slots(); ++slot)
    if (const auto& entry = all.index()[static_cast<std::size_t>(slot)]; entry.offset >= 0)
      near.slots.push_back({slot, entry});
  std::vector<std::byte> room(kPieceBytes);
  std::int64_t copied = 0;
  for (int from = 0; from < leaders.size(); ++from) {
    const bool sends = from == leaders.rank();
    const Share share = share_of(leaders.broadcast(sends ? to_text(near) : std::string(), from));
    for (const Placed& placed : share.slots) {
      const auto end = static_cast<std::size_t>(placed.entry.bytes);
      for (std::size_t at = 0; at < end; at += kPieceBytes) {
        const std::span piece = std::span(room).first(std::min(kPieceBytes, end - at));
        if (sends) std::memcpy(piece.data(), all.stored(placed.slot).data() + at, piece.size());
        leaders.broadcast(piece, from);
        if (sends) continue;
        all.append_stored(placed.slot, placed.entry.bytes, piece);
        copied += std::ssize(piece);
      }
      require(all.index()[static_cast<std::size_t>(placed.slot)].checksum == placed.entry.checksum,
              text("slot {} of the stage {} was corrupted in transit (checksum mismatch)",
                   placed.slot, all.name()),
              "run again; if it happens again, the network or a node's memory is failing");
    }
  }
  return copied;
}

/// Gives the other ranks of `near` the file of copies that its first rank has made. Collective.
void include_copies(const Comm& near, StageFile& all) {
  Share copies;
  if (near.rank() == 0) {
    copies.files = {ProcessFile::of(all.files()[kCopies].file())};
    for (std::int64_t slot = 0; slot < all.slots(); ++slot)
      if (const auto& entry = all.index()[static_cast<std::size_t>(slot)]; entry.file == kCopies)
        copies.slots.push_back({slot, entry});
  }
  copies = share_of(near.broadcast(to_text(copies), 0));
  if (near.rank() != 0) include(all, copies);
  near.barrier();  // nobody closes it before all have opened it
}

}  // namespace

Comm sharers_of_files(const Comm& twins, const Descriptor& file) {
  const Comm& node = twins.node();
  std::ostringstream mine;
  mine << ProcessFile::of(file);
  bool open = true;
  for (const std::string& text : node.all_gather(mine.str())) {
    std::istringstream in(text);
    ProcessFile other;
    in >> other;
    open = open && other.open().get() >= 0;
  }
  const bool together = node.max(std::int64_t{open ? 0 : 1}) == 0;
  return node.split(together ? 0 : node.rank(), node.rank());
}

GatheredShares gather_shares(const Comm& twins, const Comm& near, std::vector<std::int64_t> values,
                             const StageFile& mine, Descriptor copies) {
  GatheredShares result{
      StageFile(std::move(copies), mine.name(), mine.codec(), std::move(values), mine.type()), 0};
  include_near(twins, near, mine, result.file);
  const Comm leaders = twins.split(near.rank() == 0 ? 0 : -1, twins.rank());
  if (!leaders.is_null()) result.copied_bytes = copy_far(leaders, result.file);
  include_copies(near, result.file);
  result.file.finish();
  return result;
}

}  // namespace halomesh
