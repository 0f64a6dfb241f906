// Blocks of samples out of HDF5 files.
// Knows nothing of the order in which samples are used, of threads or of the network.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "error.hpp"
#include "runtime/block_writer.hpp"
#include "runtime/crc32c.hpp"
#include "runtime/hdf5_blocks.hpp"
#include "runtime/hdf5_dataset.hpp"
#include "runtime/sample_checks.hpp"

namespace halomesh {
namespace {

class Hdf5SampleReader final : public SampleReader {
 public:
  explicit Hdf5SampleReader(const Hdf5Dataset& dataset) : dataset_(dataset) {}

  void read(std::int64_t sample, AnyView dst, std::span<float> targets) override {
    if (!Box::whole(dataset_.shape()).contains(dst.span))
      throw Error(cat("block ", dst.span, " is not within the sample ", dataset_.shape()));
    const Place place = begin(sample, targets);
    if (dst.span.empty()) return;
    go_through(place, dst.span, [&](const Box& layer, std::span<const std::byte> bytes) {
      BlockWriter writer(layer.shape(),
                         {dst.begin_of(0, layer), dst.type, Box::whole(layer.shape()), 1});
      writer.take(0, bytes);
      return writer.negative();
    });
  }
  void read_layers(std::int64_t sample, const Box& box, const LayerSink& sink,
                   std::span<float> targets) override {
    const Place place = begin(sample, targets);
    if (box.empty()) return;
    go_through(place, box, [&](const Box& layer, std::span<const std::byte> bytes) {
      NegativeSearch search;
      search.take(0, bytes);
      sink({counts_.data(), layer, 1});
      return search.found();
    });
  }
  void stream(std::int64_t sample, const VoxelSink& sink, std::span<float> targets) override {
    const Shape& shape = dataset_.shape();
    go_through(begin(sample, targets), Box::whole(shape),
               [&](const Box& layer, std::span<const std::byte> bytes) {
                 NegativeSearch search;
                 search.take(0, bytes);
                 sink(layer.lo[kD] * voxel_bytes(shape) / shape.d, bytes);
                 return search.found();
               });
  }

 private:
  struct Place {
    std::int64_t index = 0;  // within the open file
    std::string where;       // for messages
  };
  /// Opens the sample's file and reads its targets.
  Place begin(std::int64_t sample, std::span<float> targets) {
    const SampleIndex::Place place = dataset_.place(sample);
    if (place.file != open_file_) open(place.file);
    const std::string where = cat(file_->path().string(), ": sample ", place.index);
    read_targets(place.index, targets, where);
    return {place.index, where};
  }
  void open(std::int64_t file) {
    open_file_ = -1;
    blocks_.reset();
    file_.reset();
    file_.emplace(Hdf5File::open(dataset_.files().path(file)));
    samples_ = dataset_.samples_in(*file_);
    blocks_.emplace(*file_, dataset_.kind().voxels);
    open_file_ = file;
  }
  void read_targets(std::int64_t index, std::span<float> targets, const std::string& where);
  template <class Take>
  void go_through(const Place& place, const Box& block, const Take& take);
  Slab slab_of(std::int64_t index, const Box& box) const;
  void check_sum(std::int64_t index, std::uint32_t found, const std::string& where);

  const Hdf5Dataset& dataset_;
  std::int64_t open_file_ = -1, samples_ = 0;  // number of the open file, and what it holds
  std::optional<Hdf5File> file_;
  std::optional<Hdf5Blocks> blocks_;  // of file_
  std::vector<std::int16_t> counts_;
  std::vector<float> all_targets_;
};

/// The block `box` of a sample in terms of the voxels of its file.
Slab Hdf5SampleReader::slab_of(std::int64_t index, const Box& box) const {
  const Shape& s = dataset_.shape();
  Slab slab{{box.lo[kD], box.lo[kH], box.lo[kW], box.lo[kC]},
            {box.extent(kD), box.extent(kH), box.extent(kW), box.extent(kC)}};
  if (dataset_.kind().stacked) {
    slab.offset.insert(slab.offset.begin(), index);
    slab.count.insert(slab.count.begin(), 1);
  } else if (samples_ > 1) {  // a box of a universe
    const std::int64_t n = dataset_.kind().cuts;
    slab.offset[0] += index / n / n * s.d;
    slab.offset[1] += index / n % n * s.h;
    slab.offset[2] += index % n * s.w;
  }
  return slab;
}

void Hdf5SampleReader::read_targets(std::int64_t index, std::span<float> targets,
                                    const std::string& where) {
  Slab row{{0}, {dataset_.targets()}};
  if (dataset_.kind().stacked) row = {{index, 0}, {1, dataset_.targets()}};
  all_targets_.resize(static_cast<std::size_t>(dataset_.targets()));
  file_->read<float>(dataset_.kind().targets, row, all_targets_);
  check_targets(all_targets_, where);
  std::copy_n(all_targets_.begin(), targets.size(), targets.begin());
}

/// Goes through a block in layers of planes, each dense in the block: take(layer, its counts) gives
/// the first voxel of the layer that is below 0.
template <class Take>
void Hdf5SampleReader::go_through(const Place& place, const Box& block, const Take& take) {
  const auto& [index, where] = place;
  const bool whole = block == Box::whole(dataset_.shape());
  const std::int64_t origin = slab_of(index, block).offset[dataset_.kind().stacked ? 1 : 0];
  const std::int64_t planes = blocks_->chunk_extent(dataset_.kind().stacked ? 1 : 0);
  std::uint32_t checksum = 0;
  for (std::int64_t d = block.lo[kD]; d < block.hi[kD];) {
    // Up to the next chunk's first plane in the file, so that no chunk is read twice.
    const std::int64_t left = planes - (origin + d - block.lo[kD]) % planes;
    const Box layer = with_d_range(block, d, std::min(d + left, block.hi[kD]));
    counts_.resize(static_cast<std::size_t>(layer.volume()));
    blocks_->read(slab_of(index, layer), counts_);
    const auto bytes = std::as_bytes(std::span(counts_));
    if (whole) checksum = crc32c(bytes, checksum);
    check_voxels(take(layer, bytes), layer.shape(),
                 {layer.lo[kD], layer.lo[kH], layer.lo[kW], layer.lo[kC]}, where);
    d = layer.hi[kD];
  }
  if (whole && dataset_.kind().checksums != nullptr) check_sum(index, checksum, where);
}

void Hdf5SampleReader::check_sum(std::int64_t index, std::uint32_t found,
                                 const std::string& where) {
  std::array<std::uint32_t, 1> stored{};
  file_->read<std::uint32_t>(dataset_.kind().checksums, {{index}, {1}}, stored);
  require(stored[0] == found,
          cat(where, ": checksum of the voxels: expected ", std::hex, std::showbase, stored[0],
              ", found ", found),
          "the archive is damaged: copy it or convert again");
}

}  // namespace

std::unique_ptr<SampleReader> Hdf5Dataset::reader() const {
  return std::make_unique<Hdf5SampleReader>(*this);
}

}  // namespace halomesh
