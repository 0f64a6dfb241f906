// SPDX-License-Identifier: Apache-2.0
// Distributes samples to the parts that keep them: see sample_scatter.hpp.
#include "runtime/stage/sample_scatter.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "partition/partition.hpp"

namespace halomesh {
namespace {

/// The number of messages that one rank may have in flight, besides those being filled.
constexpr std::int64_t kUnderWay = 4;

/// Copies a run of a few hundred bytes, as in a block that is cut along its rows, by whole cache
/// lines: a call of memcpy for each run takes a third longer.
void copy_short(std::byte* to, std::span<const std::byte> from) {
  constexpr std::size_t kLine = 64;
  if (from.size() < kLine) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  const std::size_t last = from.size() - kLine;  // overlaps the previous line
  for (std::size_t i = 0; i < last; i += kLine) std::memcpy(to + i, from.data() + i, kLine);
  std::memcpy(to + last, from.data() + last, kLine);
}

}  // namespace

SampleScatter::SampleScatter(const Comm& group, StagedSamples samples, StageFile& mine,
                             NodeFiles files, std::int64_t piece_bytes)
    : group_(group),
      samples_(std::move(samples)),
      mine_(mine),
      files_(std::move(files)),
      piece_bytes_(piece_bytes) {
  for (int part = 0; part < group.size(); ++part)
    runs_.push_back(block_range(mine.slots(), group.size(), part));
  files_.outgoing.resize(runs_.size());
  files_.incoming.resize(runs_.size());
  open_lanes();
  await_others();
}

void SampleScatter::open_lanes() {
  for (std::size_t part = 0; part < runs_.size(); ++part) {
    std::vector<std::int64_t> values;
    for (std::int64_t slot = run().lo; slot < run().hi; ++slot)
      values.push_back(values_of(slot, static_cast<std::int64_t>(part)));
    Lane& lane = lanes_.emplace_back();
    lane.wanted = std::any_of(values.begin(), values.end(), [](std::int64_t n) { return n > 0; });
    lane.own = static_cast<int>(part) == group_.rank();
    if (Descriptor& file = files_.outgoing[part]; file.get() >= 0)
      lane.outgoing.emplace(std::move(file), mine_.name(), mine_.codec(), std::move(values),
                            mine_.type());
  }
}

/// Posts receives for blocks from parts that cannot write to this part's file.
void SampleScatter::await_others() {
  std::string mine;
  std::int64_t sending = 0, arriving = 0;
  for (const Lane& lane : lanes_) {
    mine += lane.wanted && !lane.writes() ? 'm' : '-';
    sending += mine.back() == 'm' ? 1 : 0;
  }
  const auto rank = static_cast<std::size_t>(group_.rank());
  const std::vector<std::string> ways = group_.all_gather(mine);
  for (std::size_t part = 0; part < runs_.size(); ++part) {
    const bool sends = ways[part][rank] == 'm';
    sources_.push_back({runs_[part].lo, sends ? runs_[part].hi : runs_[part].lo, 0});
    for (std::int64_t slot = runs_[part].lo; slot < sources_.back().end; ++slot)
      arriving += (block_bytes(slot) + piece_bytes_ - 1) / piece_bytes_;
    skip_empty(sources_.back());
  }
  messages_ = std::make_unique<PieceMessages>(group_, piece_bytes_, arriving,
                                              sending == 0 ? 0 : sending + kUnderWay,
                                              [this](int source, std::span<const std::byte> bytes) {
                                                arrive(static_cast<std::size_t>(source), bytes);
                                              });
}

/// Moves on to the next slot of which this part keeps a block.
void SampleScatter::skip_empty(Source& source) const {
  while (source.slot < source.end && block_bytes(source.slot) == 0) ++source.slot;
}

void SampleScatter::begin_sample(std::int64_t slot) {
  begun_ = slot;
  const std::int64_t size = size_of(mine_.type());
  for (std::size_t part = 0; part < lanes_.size(); ++part)
    lanes_[part].runs =
        BoxRuns(samples_.shape(slot), samples_.block(slot, static_cast<std::int64_t>(part)), size);
}

void SampleScatter::take(std::int64_t slot, std::int64_t offset, std::span<const std::byte> bytes) {
  if (slot != begun_) begin_sample(slot);
  for (std::size_t part = 0; part < lanes_.size(); ++part)
    lanes_[part].runs.each(offset, offset + std::ssize(bytes),
                           [&](std::int64_t lo, std::int64_t hi, std::int64_t) {
                             const auto run = bytes.subspan(static_cast<std::size_t>(lo - offset),
                                                            static_cast<std::size_t>(hi - lo));
                             if (!pack(lanes_[part], run)) put(part, slot, run);
                           });
  messages_->progress();
}

/// Packs a short run with others that are written together. False if no memory is left, or none is
/// allocated yet.
bool SampleScatter::pack(Lane& lane, std::span<const std::byte> run) const {
  if (lane.filled + run.size() > lane.packed.size() || is_long(run)) return false;
  copy_short(lane.packed.data() + lane.filled, run);
  lane.filled += run.size();
  return true;
}

/// Adds bytes to a part's block. Long runs are written at once.
void SampleScatter::put(std::size_t part, std::int64_t slot, std::span<const std::byte> bytes) {
  Lane& lane = lanes_[part];
  const auto piece = static_cast<std::size_t>(piece_bytes_);
  if (lane.writes() && lane.filled == 0 && is_long(bytes)) {
    write(lane, slot, bytes);
    return;
  }
  while (!bytes.empty()) {
    if (lane.writes())
      lane.packed.resize(piece);
    else if (!lane.message)
      lane.message = messages_->take_buffer();
    const std::span<std::byte> room =
        lane.writes() ? std::span(lane.packed) : messages_->bytes_of(*lane.message);
    const std::size_t count = std::min(bytes.size(), piece - lane.filled);
    std::memcpy(room.data() + lane.filled, bytes.data(), count);
    lane.filled += count;
    bytes = bytes.subspan(count);
    if (lane.filled == piece) flush(part, slot);
  }
}

void SampleScatter::write(Lane& lane, std::int64_t slot, std::span<const std::byte> bytes) {
  if (lane.own)
    mine_.append(slot, bytes);
  else
    lane.outgoing->append(slot - run().lo, bytes);
}

void SampleScatter::flush(std::size_t part, std::int64_t slot) {
  Lane& lane = lanes_[part];
  const std::size_t count = std::exchange(lane.filled, 0);
  if (count == 0) return;
  if (lane.writes()) {
    write(lane, slot, std::span(lane.packed).first(count));
    return;
  }
  messages_->send(*lane.message, count, static_cast<int>(part));
  lane.message.reset();
}

void SampleScatter::end_sample(std::int64_t slot) {
  for (std::size_t part = 0; part < lanes_.size(); ++part) flush(part, slot);
}

/// Stores the next bytes of this part's block of the sample that `part` reads.
void SampleScatter::arrive(std::size_t part, std::span<const std::byte> bytes) {
  Source& source = sources_[part];
  mine_.append(source.slot, bytes);
  source.bytes += std::ssize(bytes);
  if (source.bytes < block_bytes(source.slot)) return;
  source.bytes = 0;
  ++source.slot;
  skip_empty(source);
}

void SampleScatter::receive(std::int64_t rounds) {
  for (std::size_t part = 0; part < sources_.size(); ++part)
    while (sources_[part].slot < std::min(runs_[part].lo + rounds, sources_[part].end))
      messages_->progress();
}

void SampleScatter::finish() {
  messages_->finish_sends();
  // Each part sends the checksums of the blocks that it has written for other parts.
  std::vector<std::uint32_t> written;
  for (const Lane& lane : lanes_)
    for (std::size_t i = 0; i < static_cast<std::size_t>(run().hi - run().lo); ++i)
      written.push_back(lane.outgoing ? lane.outgoing->index()[i].checksum : 0);
  const std::string bytes(reinterpret_cast<const char*>(written.data()),  // NOLINT: bytes
                          written.size() * sizeof(std::uint32_t));
  const std::vector<std::string> all = group_.all_gather(bytes);
  const auto rank = static_cast<std::size_t>(group_.rank());
  for (std::size_t part = 0; part < runs_.size(); ++part) {
    if (files_.incoming[part].get() < 0) continue;
    std::vector<std::uint32_t> checksums(static_cast<std::size_t>(runs_[part].hi - runs_[part].lo));
    if (checksums.empty()) continue;
    const std::size_t size = checksums.size() * sizeof(std::uint32_t);
    std::memcpy(checksums.data(), all[part].data() + rank * size, size);
    mine_.adopt(std::move(files_.incoming[part]), runs_[part].lo, checksums);
  }
}

}  // namespace halomesh
