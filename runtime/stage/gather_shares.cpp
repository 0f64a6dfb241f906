// SPDX-License-Identifier: Apache-2.0
// The exchange of a stage's shares: see gather_shares.hpp.
#include "runtime/stage/gather_shares.hpp"

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

using Entry = StageFile::Entry;

constexpr std::size_t kPieceBytes = 8 << 20;  // of one broadcast

/// A twin's files and what is in them.
struct Share {
  int twin = 0;
  std::vector<ProcessFile> files;
  std::vector<Entry> entries;
};

std::string to_text(const Share& share) {
  std::ostringstream text;
  text << share.twin << ' ' << share.files.size() << ' ' << share.entries.size();
  for (const ProcessFile& file : share.files) text << ' ' << file;
  for (const Entry& e : share.entries)
    text << ' ' << e.file << ' ' << e.offset << ' ' << e.bytes << ' ' << e.checksum;
  return text.str();
}

Share share_of(const std::string& text) {
  std::istringstream in(text);
  Share share;
  std::size_t files = 0, entries = 0;
  in >> share.twin >> files >> entries;
  share.files.resize(files);
  share.entries.resize(entries);
  for (ProcessFile& file : share.files) in >> file;
  for (Entry& e : share.entries) in >> e.file >> e.offset >> e.bytes >> e.checksum;
  return share;
}

std::vector<Descriptor> open_files(const Share& share) {
  std::vector<Descriptor> files;
  for (const ProcessFile& file : share.files) files.push_back(file.open());
  return files;
}

bool all_open(const std::vector<Descriptor>& files) {
  return std::all_of(files.begin(), files.end(), [](const auto& file) { return file.get() >= 0; });
}

/// The ranks of `node` that can open each other's files: all or this one alone. Adds to `all` what
/// they have staged. Collective over `node`.
Comm include_near(const Comm& twins, const Comm& node, const StageFile& mine, StageFile& all) {
  Share own{twins.rank(), {}, mine.index()};
  for (const MappedFile& file : mine.files()) own.files.push_back(ProcessFile::of(file.file()));
  std::vector<Share> shares;
  std::vector<std::vector<Descriptor>> files;
  bool open = true;
  for (const std::string& text : node.all_gather(to_text(own))) {
    shares.push_back(share_of(text));
    files.push_back(open_files(shares.back()));
    open = open && all_open(files.back());
  }
  // Nobody closes a file before all have tried to open it.
  const bool together = node.max(std::int64_t{open ? 0 : 1}) == 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const bool is_own = shares[i].twin == own.twin;
    if (!together && !is_own) continue;
    require(all_open(files[i]), text("cannot open the stage {} again", mine.name()),
            "check that /proc is mounted");
    all.include(std::move(files[i]), block_range(all.slots(), twins.size(), shares[i].twin).lo,
                shares[i].entries);
  }
  return node.split(together ? 0 : node.rank(), node.rank());
}

/// Passes what each leader's ranks have staged to the other leaders, which store it. Collective
/// over `leaders`. Returns the bytes stored.
std::int64_t copy_far(const Comm& leaders, StageFile& all) {
  std::vector<Entry> near = all.index();  // the others have no offset
  std::vector<std::byte> room(kPieceBytes);
  std::int64_t copied = 0;
  for (int from = 0; from < leaders.size(); ++from) {
    const bool sends = from == leaders.rank();
    const Share share =
        share_of(leaders.broadcast(sends ? to_text({from, {}, near}) : std::string(), from));
    for (std::size_t slot = 0; slot < share.entries.size(); ++slot) {
      const Entry& entry = share.entries[slot];
      if (entry.offset < 0) continue;
      const auto number = static_cast<std::int64_t>(slot);
      for (std::size_t at = 0, end = static_cast<std::size_t>(entry.bytes); at < end;
           at += kPieceBytes) {
        const std::span piece = std::span(room).first(std::min(kPieceBytes, end - at));
        if (sends) std::memcpy(piece.data(), all.stored(number).data() + at, piece.size());
        leaders.broadcast(piece, from);
        if (sends) continue;
        all.append_stored(number, entry.bytes, piece);
        copied += std::ssize(piece);
      }
      require(sends || all.index()[slot].checksum == entry.checksum,
              text("slot {} of the stage {} has changed on its way (checksum)", slot, all.name()),
              "start again; if it returns, the network or a node's memory is failing");
    }
  }
  return copied;
}

/// Gives the ranks of a node the file of copies that the first of them has made. Collective.
void include_copies(const Comm& near, StageFile& all) {
  constexpr std::int64_t kCopies = 0;  // its number among a leader's files
  Share copies;
  if (near.rank() == 0) {
    copies = {0, {ProcessFile::of(all.files().front().file())}, all.index()};
    for (Entry& entry : copies.entries)
      if (entry.file != kCopies) entry.offset = -1;
  }
  copies = share_of(near.broadcast(to_text(copies), 0));
  std::vector<Descriptor> files = open_files(copies);
  near.barrier();  // nobody closes it before
  if (near.rank() == 0) return;
  require(all_open(files), text("cannot open the copies of the stage {}", all.name()),
          "leave --stage-dir out, or start again");
  all.include(std::move(files), 0, copies.entries);
}

}  // namespace

GatheredShares gather_shares(const Comm& twins, const Comm& node, std::int64_t slots,
                             const StageFile& mine, Descriptor copies) {
  GatheredShares result{
      StageFile(std::move(copies), mine.name(), mine.codec(), slots, mine.block()), 0};
  const Comm near = include_near(twins, node, mine, result.file);
  const Comm leaders = twins.split(near.rank() == 0 ? 0 : -1, twins.rank());
  if (!leaders.is_null()) result.copied_bytes = copy_far(leaders, result.file);
  include_copies(near, result.file);
  result.file.finish();
  return result;
}

}  // namespace halomesh
