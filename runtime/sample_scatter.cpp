// Samples on their way to the parts that keep them: see sample_scatter.hpp.
#include "runtime/sample_scatter.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "partition/partition.hpp"
#include "runtime/node_files.hpp"

namespace halomesh {
namespace {

/// Messages that may be under way from one rank beyond those being filled.
constexpr std::int64_t kUnderWay = 4;

}  // namespace

SampleScatter::SampleScatter(const Comm& group, const KeptSample& sample, std::int64_t slots,
                             StageFile& mine, const ScatterOptions& options)
    : group_(group), sample_(sample), mine_(mine), piece_bytes_(options.piece_bytes) {
  for (int part = 0; part < group.size(); ++part)
    runs_.push_back(block_range(slots, group.size(), part));
  open_lanes(mine, options.share_files && mine.codec() == StageCodec::kNone);
  await_others();
}

void SampleScatter::open_lanes(StageFile& mine, bool share_files) {
  std::vector<Descriptor> files(runs_.size());
  if (share_files) files = open_node_files(group_, mine.file());
  for (std::size_t part = 0; part < runs_.size(); ++part) {
    const Box& box = sample_.kept[part];
    Lane& lane = lanes_.emplace_back();
    lane.runs = BlockRuns(sample_.shape, box, sizeof(std::int16_t));
    lane.wanted = !box.empty();
    if (static_cast<int>(part) == group_.rank()) {
      lane.file = &mine;
    } else if (files[part].get() >= 0) {
      lane.neighbours.emplace(std::move(files[part]), mine.name(), mine.codec(), runs_.back().hi,
                              box.volume());
    }
  }
  for (Lane& lane : lanes_)
    if (lane.neighbours) lane.file = &*lane.neighbours;  // lanes do not move any more
}

/// Prepares for what the parts send that cannot write to this part's file.
void SampleScatter::await_others() {
  std::string mine;
  std::int64_t sending = 0, arriving = 0;
  for (const Lane& lane : lanes_) {
    mine += lane.wanted && lane.file == nullptr ? 'm' : '-';
    sending += mine.back() == 'm' ? 1 : 0;
  }
  const auto rank = static_cast<std::size_t>(group_.rank());
  const std::int64_t messages = (block_bytes(rank) + piece_bytes_ - 1) / piece_bytes_;
  const std::vector<std::string> ways = group_.all_gather(mine);
  for (std::size_t part = 0; part < runs_.size(); ++part) {
    const bool sends = ways[part][rank] == 'm';
    sources_.push_back({runs_[part].lo, sends ? runs_[part].hi : runs_[part].lo, 0});
    if (sends) arriving += messages * (runs_[part].hi - runs_[part].lo);
  }
  messages_ = std::make_unique<PieceMessages>(group_, piece_bytes_, arriving,
                                              sending == 0 ? 0 : sending + kUnderWay,
                                              [this](int source, std::span<const std::byte> bytes) {
                                                arrive(static_cast<std::size_t>(source), bytes);
                                              });
}

void SampleScatter::take(std::int64_t slot, std::int64_t offset, std::span<const std::byte> bytes) {
  for (std::size_t part = 0; part < lanes_.size(); ++part)
    lanes_[part].runs.each(offset, offset + std::ssize(bytes),
                           [&](std::int64_t lo, std::int64_t hi) {
                             put(part, slot,
                                 bytes.subspan(static_cast<std::size_t>(lo - offset),
                                               static_cast<std::size_t>(hi - lo)));
                           });
  messages_->progress();
}

/// Adds bytes to a part's block. Long runs are written as they are.
void SampleScatter::put(std::size_t part, std::int64_t slot, std::span<const std::byte> bytes) {
  Lane& lane = lanes_[part];
  const auto piece = static_cast<std::size_t>(piece_bytes_);
  if (lane.file != nullptr && lane.filled == 0 && bytes.size() >= piece / 4) {
    lane.file->append(slot, bytes);
    return;
  }
  while (!bytes.empty()) {
    if (lane.file != nullptr)
      lane.packed.resize(piece);
    else if (!lane.message)
      lane.message = messages_->take_buffer();
    const std::span<std::byte> room =
        lane.file != nullptr ? std::span(lane.packed) : messages_->bytes_of(*lane.message);
    const std::size_t count = std::min(bytes.size(), piece - lane.filled);
    std::memcpy(room.data() + lane.filled, bytes.data(), count);
    lane.filled += count;
    bytes = bytes.subspan(count);
    if (lane.filled == piece) flush(part, slot);
  }
}

void SampleScatter::flush(std::size_t part, std::int64_t slot) {
  Lane& lane = lanes_[part];
  const std::size_t count = std::exchange(lane.filled, 0);
  if (count == 0) return;
  if (lane.file != nullptr) {
    lane.file->append(slot, std::span(lane.packed).first(count));
    return;
  }
  messages_->send(*lane.message, count, static_cast<int>(part));
  lane.message.reset();
}

void SampleScatter::end_sample(std::int64_t slot) {
  for (std::size_t part = 0; part < lanes_.size(); ++part) flush(part, slot);
}

/// The next bytes of this part's block of the sample that `part` reads.
void SampleScatter::arrive(std::size_t part, std::span<const std::byte> bytes) {
  Source& source = sources_[part];
  mine_.append(source.slot, bytes);
  source.bytes += std::ssize(bytes);
  if (source.bytes < block_bytes(static_cast<std::size_t>(group_.rank()))) return;
  source.bytes = 0;
  ++source.slot;
}

void SampleScatter::receive(std::int64_t rounds) {
  for (std::size_t part = 0; part < sources_.size(); ++part)
    while (sources_[part].slot < std::min(runs_[part].lo + rounds, sources_[part].end))
      messages_->progress();
}

void SampleScatter::finish() {
  messages_->finish_sends();
  // Each part tells the checksums of what it has written for others, part by part.
  std::vector<std::uint32_t> written;
  for (const Lane& lane : lanes_)
    for (std::int64_t slot = run().lo; slot < run().hi; ++slot)
      written.push_back(
          lane.neighbours ? lane.neighbours->index()[static_cast<std::size_t>(slot)].checksum : 0);
  const std::string bytes(reinterpret_cast<const char*>(written.data()),  // NOLINT: bytes
                          written.size() * sizeof(std::uint32_t));
  const std::vector<std::string> all = group_.all_gather(bytes);
  const auto rank = static_cast<std::size_t>(group_.rank());
  for (std::size_t part = 0; part < runs_.size(); ++part) {
    if (part == rank || !lanes_[rank].wanted || sources_[part].end > runs_[part].lo) continue;
    const auto count = static_cast<std::size_t>(runs_[part].hi - runs_[part].lo);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t checksum = 0;
      std::memcpy(&checksum, all[part].data() + (rank * count + i) * sizeof checksum,
                  sizeof checksum);
      mine_.adopt(runs_[part].lo + static_cast<std::int64_t>(i), checksum);
    }
  }
}

}  // namespace halomesh
